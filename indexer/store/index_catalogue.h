#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// Returns the folder of the indexes that this user made: $OPTRACE_INDEX_DIR, else
/// $XDG_DATA_HOME/optrace/indexes, else ~/.local/share/optrace/indexes. Empty if HOME is not set.
std::filesystem::path own_index_folder();

/// Returns the path of the user's index for a version and creates its folder. Throws Error(usage)
/// if there is no such folder and it can't be created.
std::filesystem::path own_index_path(std::string_view torch_version);

struct CataloguedIndex {
  std::filesystem::path path;
  bool own = false;  ///< Made by this user; else shipped with optrace.

  /// Throws as Index::open and open_packed_index do.
  Index open() const;
};

/// Returns all indexes of torch, the user's own first, sorted by name. They are not opened, so some
/// may be corrupt.
std::vector<CataloguedIndex> list_indexes();

/// Returns the index for a torch version such as `2.6.0+cu124` that was built from the commit
/// `git_version` (empty: unknown). Among the indexes of that version, one of that commit is
/// preferred, then a complete index to one made on demand, then the user's own to a shipped one.
/// Without an index of that version, returns one of the nearest other version; line numbers are
/// approximate then (compare Index::torch_version). Returns nothing if there is no index at all. A
/// corrupt index is skipped, and the reason is appended to `warnings`.
std::optional<Index> find_index(std::string_view torch_version, std::string_view git_version,
                                std::vector<std::string>* warnings = nullptr);

/// Returns the index from which the index of a wheel of this version can start: the one of the
/// nearest version that was made from a complete source tree and has anchors. Returns nothing if
/// there is none.
std::optional<Index> find_base_index(std::string_view torch_version);

/// Returns the path of the user's index of a third-party extension and creates its folder. Throws
/// Error(usage) if there is no such folder, or if `name` contains other characters than letters,
/// digits, `_`, `-` and dots.
std::filesystem::path own_project_path(std::string_view name);

/// Returns the indexes of third-party extensions that this user made (`optrace source add DIR
/// --project`), sorted by name.
std::vector<CataloguedIndex> list_project_indexes();

/// Opens the indexes of list_project_indexes(). Ops that are not torch's own are looked up in them,
/// after torch's index. Index::note("project") is the name. A corrupt index is skipped, and the
/// reason is appended to `warnings`.
std::vector<Index> find_project_indexes(std::vector<std::string>* warnings = nullptr);

}  // namespace optrace
