#pragma once

#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/op_facts.h"
#include "lookup/dispatch/dispatch_table.h"
#include "lookup/locate/source_indexes.h"

namespace optrace {

/// A function that implements a kernel, and its role.
struct KernelFunction {
  /// `generated`, `kernel`, `meta`, `implementation`, `inner loop` (of a ufunc), `functional`
  /// (wrapped by an out variant that torchgen generates), `named in the yaml`.
  std::string role;
  std::string symbol;       ///< Empty if only the yaml names it.
  std::string name;         ///< Qualified name.
  SourceLocation location;  ///< Without a file if the index has no definition.
};

/// One entry of the dispatch table, with the functions that implement it.
struct ExplainedKey {
  DispatchEntry entry;
  std::string kernel;  ///< The registered function's qualified name; empty if none is named.
  /// The registered function, and the hand-written functions of PyTorch that it calls.
  std::vector<KernelFunction> functions;
};

/// Returns the entries of an op's dispatch table with the functions that implement them. `facts`
/// are the op's.
std::vector<ExplainedKey> explain_keys(const SourceIndexes& index, const DispatchTable& table,
                                       const OpFacts& facts);

}  // namespace optrace
