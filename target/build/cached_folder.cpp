#include "target/build/cached_folder.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>

#include "platform/error.h"

namespace optrace {
namespace {

constexpr std::string_view kPrefix = ".new-";

}  // namespace

NewFolder::NewFolder(const std::filesystem::path& parent) {
  std::string pattern = (parent / fmt::format("{}XXXXXX", kPrefix)).string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw Error(ExitStatus::failed, describe_errno(errno), "Free space in the cache's folder.");
  path_ = pattern;
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void NewFolder::remove_left_behind(const std::filesystem::path& parent) {
  std::error_code error;
  std::vector<std::filesystem::path> found;
  for (std::filesystem::directory_iterator at(parent, error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with(kPrefix)) found.push_back(at->path());
  for (const auto& path : found) std::filesystem::remove_all(path, error);
}

void NewFolder::replace(const std::filesystem::path& path) {
  if (std::rename(path_.c_str(), path.c_str()) == 0) {
    path_.clear();
    return;
  }
  // The destructor removes the old folder, which then has the new one's name.
  if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
  if (std::rename(path_.c_str(), path.c_str()) == 0) path_.clear();
}

}  // namespace optrace
