#pragma once

#include <filesystem>
#include <string>

#include "indexer/sources/progress_reporter.h"

namespace optrace {

/// The official PyTorch repository.
inline constexpr const char* kUpstream = "https://github.com/pytorch/pytorch.git";

struct FetchOptions {
  std::string remote = kUpstream;  ///< A URL (https, http, ssh, git, file), or a folder.
  std::string commit;              ///< 40 hex digits.
  std::filesystem::path folder;    ///< The folder to create.
};

/// Returns the folder for the source of a version that optrace fetches:
/// $XDG_DATA_HOME/optrace/sources, else ~/.local/share/optrace/sources. Throws Error(usage) if HOME
/// is not set.
std::filesystem::path own_source_folder(const std::string& torch_version);

/// Fetches with git the part of one PyTorch commit that indexing needs: without history, other
/// folders' files, or submodules. Does nothing if `folder` already has that commit. The tree
/// appears whole or not at all. Throws Error(usage) for an unsuitable remote, commit or folder, or
/// if git is missing; Error(failed) with git's last output; Error(interrupted).
void fetch_source(const FetchOptions& options, ProgressReporter& progress);

/// Returns the commit that is checked out in a folder, 40 hex digits. Empty if the folder is not a
/// checkout.
std::string checked_out_commit(const std::filesystem::path& folder);

}  // namespace optrace
