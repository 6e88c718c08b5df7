#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "indexer/store/index_contents.h"
#include "indexer/wheel/shallow_parser.h"
#include "indexer/wheel/wheel_code.h"

namespace optrace {

/// Finds the symbols of functions by their names as source code writes them. The wheel's libraries
/// and the headers that were read know the functions.
class FunctionNames {
 public:
  /// `code` must outlive the object.
  FunctionNames(const WheelCode& code, const std::vector<IndexContents::Function>& headers);

  /// Records the classes of a file, whose members are looked up in their bases too.
  void add_classes(const std::vector<ParsedClass>& classes);

  /// Returns the symbol of a definition: the wheel's, or the names alone (template_key in
  /// symbol_key.h) if the wheel and the headers have no such function. Empty if several overloads
  /// fit.
  std::string symbol_of(const ParsedFunction& function) const;

  /// Returns the symbols that a name can mean within `scope` and `used_namespaces`: those of the
  /// innermost scope that has the name.
  std::vector<std::string> visible(const std::vector<std::string>& scope,
                                   const std::vector<std::string>& used_namespaces,
                                   std::string_view name) const;

  /// Returns the symbols of a member called `name` of the class `type`, as named within `scope`,
  /// or of its bases.
  std::vector<std::string> member(const std::vector<std::string>& scope, std::string_view type,
                                  std::string_view name) const;

 private:
  /// Returns the symbols of the functions that have this name, all overloads.
  std::vector<std::string> overloads(const std::vector<std::string>& scope,
                                     std::string_view name) const;
  const std::vector<std::string>* of_names(const std::string& names) const;
  std::vector<std::string> member(const std::vector<std::string>& scope, std::string_view type,
                                  std::string_view name, unsigned depth) const;

  const WheelCode& code_;
  std::unordered_map<std::string, std::vector<std::string>> in_headers_;
  /// Qualified name of a class, without unnamed namespaces, to its bases and their scope.
  std::unordered_map<std::string, ParsedClass> classes_;
};

}  // namespace optrace
