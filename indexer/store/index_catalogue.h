#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// The folder of the indexes that this user made: $OPTRACE_INDEX_DIR, else
/// $XDG_DATA_HOME/optrace/indexes, else ~/.local/share/optrace/indexes. Empty without a home.
std::filesystem::path own_index_folder();

/// Where the user's index for a version belongs; makes the folder. Throws Error(usage) when there
/// is no such folder and none can be made.
std::filesystem::path own_index_path(std::string_view torch_version);

struct CataloguedIndex {
  std::filesystem::path path;
  bool own = false;  ///< Made by this user; else it came with optrace.
};

/// All indexes of torch, the user's own first, by name. Not opened: some may turn out to be broken.
std::vector<CataloguedIndex> list_indexes();

/// The index for a torch version such as `2.6.0+cu124` that was built from the commit `git_version`
/// (empty: unknown). Of that version, one of that commit comes first, then one that holds
/// everything before one that is made on demand, then the user's own before a shipped one. Else of
/// the nearest other version, for which lines are approximate (compare Index::torch_version).
/// Nothing when there is no index at all. A broken index is passed over and what is wrong with it
/// appended to `warnings`.
std::optional<Index> find_index(std::string_view torch_version, std::string_view git_version,
                                std::vector<std::string>* warnings = nullptr);

/// Where the user's index of a third-party extension belongs; makes the folder. Throws Error(usage)
/// when there is no such folder, or `name` is not made of letters, digits, `_`, `-` and dots.
std::filesystem::path own_project_path(std::string_view name);

/// The indexes of third-party extensions that this user made (`optrace source add DIR --project`),
/// by name.
std::vector<CataloguedIndex> list_project_indexes();

/// The same, opened: ops that are not torch's own are looked for in these, after torch's index.
/// Index::note("project") is its name. A broken one is passed over and what is wrong with it
/// appended to `warnings`.
std::vector<Index> find_project_indexes(std::vector<std::string>* warnings = nullptr);

}  // namespace optrace
