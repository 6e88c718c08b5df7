#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "indexer/index_store.h"

namespace optrace {

/// The folders that hold indexes, the user's own first: `$XDG_DATA_HOME/optrace/indexes` (else
/// `~/.local/share/...`), then the ones that came with optrace. A file there is `NAME.index`.
std::vector<std::filesystem::path> index_folders();

/// The index in `folders` that fits a torch best: one made from its very source, else the nearest
/// version's. Nothing if there is none. Throws Error(usage) for a file that is no sound index.
std::optional<Index> choose_index(std::string_view torch_version, std::string_view git_version,
                                  const std::vector<std::filesystem::path>& folders);

}  // namespace optrace
