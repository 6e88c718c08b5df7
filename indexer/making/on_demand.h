#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "indexer/making/index_maker.h"
#include "indexer/store/index_store.h"

namespace optrace {

// An index that grows: its note `on_demand` is a source tree whose catalogue of ops is in it, and
// of which it holds the units that somebody asked for.

/// Notes a source tree: generates code, reads the headers shared by all units and writes an index
/// with the catalogue and the kernels that are registered for ops, of the tree's version.
/// `options.only` is of no meaning. Throws as make_index does.
MadeIndex prepare_on_demand(const MakeIndexOptions& options);

/// True if `index` is made on demand and add_on_demand was not called for one of `names` yet.
bool lacks(const Index& index, const std::vector<std::string>& names);

struct AddedOnDemand {
  std::size_t units = 0;   ///< Those that define the names, or what they lead to.
  std::size_t parsed = 0;  ///< Of these, those that had to be parsed.
};

/// Finds the units that define `names` (ops as `aten::add.Tensor` or `conv2d`; C++ functions, bare
/// or qualified) by a scan over the text of the index's tree, and the foremost of those that define
/// the ops that they call; has them parsed and writes the index anew with what they hold. For names
/// that nothing defines too, so that they are not looked for again. Throws as make_index does.
AddedOnDemand add_on_demand(const Index& index, const std::vector<std::string>& names);

/// Those of `names` of which C++ text defines a function, or a kernel by a macro that names it
/// (TORCH_IMPL_FUNC, TORCH_META_FUNC, DEFINE_DISPATCH, REGISTER_DISPATCH and its like).
std::set<std::string> defined_names(std::string_view text,
                                    const std::unordered_set<std::string>& names);

}  // namespace optrace
