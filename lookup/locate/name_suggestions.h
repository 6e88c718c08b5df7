#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lookup/locate/cpp_lookup.h"
#include "lookup/locate/entry_locator.h"
#include "lookup/locate/locate_query.h"
#include "lookup/locate/op_lookup.h"
#include "lookup/locate/python_lookup.h"

namespace optrace {

/// Suggests similar names for a name that has no answer. Reads the last words of all names at the
/// first call and keeps them.
class NameSuggestions {
 public:
  /// All arguments must outlive this.
  NameSuggestions(const EntryLocator& entries, const CppLookup& cpp, OpLookup& ops,
                  PythonLookup& python)
      : entries_(entries), cpp_(cpp), ops_(ops), python_(python) {}

  /// Returns at most 5 names, the most similar first.
  std::vector<std::string> suggest(const NameQuery& query);

 private:
  std::vector<std::string> siblings(const NameQuery& query);
  std::vector<std::string> in_same_namespace(const NameQuery& query);
  std::vector<std::string> with_similar_word(const NameQuery& query);
  const std::map<std::string, std::string>& names_by_word();
  const std::vector<std::string>& words();

  const EntryLocator& entries_;
  const CppLookup& cpp_;
  OpLookup& ops_;
  PythonLookup& python_;
  std::optional<std::map<std::string, std::string>> names_by_word_;
  std::vector<std::string> words_;
};

}  // namespace optrace
