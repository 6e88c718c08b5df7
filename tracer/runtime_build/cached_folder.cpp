#include "tracer/runtime_build/cached_folder.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <stdlib.h>

#include "platform/error.h"

namespace optrace {

NewFolder::NewFolder(const std::filesystem::path& parent) {
  std::string pattern = (parent / ".new-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw Error(ExitStatus::failed, describe_errno(errno), "Free space in the cache's folder.");
  path_ = pattern;
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
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
