#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/index_maker.h"

namespace optrace {

// For who answers questions from an index: where no index was made from exactly the torch at hand,
// but the user has said where its source is (`optrace source add DIR --on-demand`), have the names
// in question indexed, then open the index anew:
//
//     if (index_on_demand(torch_version, {"aten::conv2d"})) choice = choose_index(...);

struct IndexedOnDemand {
  std::filesystem::path index;  ///< The index that has the names now.
  std::size_t units = 0;        ///< Those that define the names, or what they lead to.
  std::size_t parsed = 0;       ///< Of these, those that had to be parsed.
};

/// Notes a source tree for index_on_demand: generates code, reads the headers shared by all units
/// and writes an index with the catalogue alone, of the tree's version. Its note `on_demand` is the
/// tree, `python` the Python. `options.only` is of no meaning. Throws as make_index does.
MadeIndex prepare_on_demand(const MakeIndexOptions& options);

/// Finds the units that define `names` (ops as `aten::add.Tensor` or `conv2d`; C++ functions, bare
/// or qualified) by a scan over the text of the tree that was noted for `torch_version`, and the
/// foremost of those that define what they call; has them parsed and adds what they hold to the
/// user's index of that version. Nothing when no tree is noted for the version; nothing
/// is parsed again for names that are there. Throws as make_index does.
std::optional<IndexedOnDemand> index_on_demand(std::string_view torch_version,
                                               const std::vector<std::string>& names);

/// True if C++ text defines a function of that bare name, or a kernel by a macro that names it
/// (TORCH_IMPL_FUNC, TORCH_META_FUNC, DEFINE_DISPATCH, REGISTER_DISPATCH and its like).
bool defines(std::string_view text, std::string_view name);

}  // namespace optrace
