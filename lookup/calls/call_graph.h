#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/dispatch/dispatch_table.h"
#include "lookup/locate/source_indexes.h"

namespace optrace {

/// The calls that the source contains, for searches: call sites and definitions from the indexes,
/// and dispatch tables, which are computed once for each op.
class CallGraph {
 public:
  /// `index` is copied; the indexes that it refers to must outlive the object.
  explicit CallGraph(const SourceIndexes& index);

  const SourceIndexes& index() const { return index_; }

  /// Returns the dispatch table of an op. It stays valid as long as this object.
  const DispatchTable& table(const std::string& op);

  /// Returns the op that `at::_ops::X::call` or `redispatch` calls; empty for other symbols.
  std::string op_of(std::string_view symbol) const;

 private:
  SourceIndexes index_;
  std::vector<Registration> fallbacks_;
  std::map<std::string, DispatchTable, std::less<>> tables_;
};

}  // namespace optrace
