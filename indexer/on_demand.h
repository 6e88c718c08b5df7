#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

// For who answers questions from an index: where no index was made from exactly the torch at hand,
// but the user has said where its source is (`optrace source add DIR --on-demand`), ask for the
// names in question to be indexed, then open the index anew:
//
//     if (!choice.exact && index_on_demand("2.7.1", {"aten::conv2d"})) choice = choose_index(...);

struct IndexedOnDemand {
  std::filesystem::path index;  ///< The index that has the names now.
  std::size_t units = 0;        ///< Those that define or use the names.
  std::size_t parsed = 0;       ///< Of these, those that had to be parsed.
};

/// Finds the units that define `names` (ops as `aten::add.Tensor` or `conv2d`; C++ functions, bare
/// or qualified) by a scan over the text of the tree that belongs to `torch_version`, and those of
/// the functions that they call, has them parsed, and adds what they hold to the user's index of
/// that version. Nothing when no tree is noted for the version; nothing is done for names that are
/// there already. Throws as make_index does.
std::optional<IndexedOnDemand> index_on_demand(std::string_view torch_version,
                                               const std::vector<std::string>& names);

}  // namespace optrace
