#pragma once

#include <filesystem>
#include <string>

#include "indexer/sources/progress_reporter.h"

namespace optrace {

/// PyTorch's own repository.
inline constexpr const char* kUpstream = "https://github.com/pytorch/pytorch.git";

struct FetchOptions {
  std::string remote = kUpstream;  ///< A URL (https, http, ssh, git, file), or a folder.
  std::string commit;              ///< 40 hex digits.
  std::filesystem::path folder;    ///< Where the tree is to be.
};

/// Where the source of a version that optrace fetches belongs: $XDG_DATA_HOME/optrace/sources, else
/// ~/.local/share/optrace/sources. Throws Error(usage) without a home.
std::filesystem::path own_source_folder(const std::string& torch_version);

/// Gets what indexing needs of one commit of PyTorch with git: that commit only, without history,
/// other folders' files, or submodules. Does nothing when `folder` is that already. The tree
/// appears whole or not at all. Throws Error(usage) for a remote, commit or folder that does not
/// fit, or when there is no git; Error(failed) with git's last words; Error(interrupted).
void fetch_source(const FetchOptions& options, ProgressReporter& progress);

/// The commit that is checked out in a folder, 40 hex digits; empty when it is no checkout.
std::string checked_out_commit(const std::filesystem::path& folder);

}  // namespace optrace
