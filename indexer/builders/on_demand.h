#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "indexer/builders/index_maker.h"
#include "indexer/store/index_store.h"

namespace optrace {

// An index that is made on demand contains the catalogue of ops of a source tree, which its note
// `on_demand` names, and only those units that were asked for.

/// Prepares a source tree: generates code, reads the headers shared by all units, and writes an
/// index for the tree's version with the catalogue and the kernels registered for ops.
/// `options.only` is ignored. Throws as make_index does.
MadeIndex prepare_on_demand(const MakeIndexOptions& options);

/// Returns true if `index` is made on demand and add_on_demand was not called yet for one of
/// `names`.
bool lacks(const Index& index, const std::vector<std::string>& names);

struct AddedOnDemand {
  std::size_t units = 0;   ///< Units that define the names or ops that these call.
  std::size_t parsed = 0;  ///< Number of these units that were parsed.
};

/// Finds the units that define `names` (ops as `aten::add.Tensor` or `conv2d`; C++ functions,
/// unqualified or qualified) by scanning the text of the index's tree, and the most relevant of the
/// units that define the ops called by them. Parses these units and writes the index again with
/// their contents. Names without a definition are recorded too, so that they are not searched for
/// again. Throws as make_index does.
AddedOnDemand add_on_demand(const Index& index, const std::vector<std::string>& names);

/// Returns those of `names` that C++ text defines as a function, or as a kernel in a macro
/// (TORCH_IMPL_FUNC, TORCH_META_FUNC, DEFINE_DISPATCH, REGISTER_DISPATCH and similar macros).
std::set<std::string> defined_names(std::string_view text,
                                    const std::unordered_set<std::string>& names);

}  // namespace optrace
