#include "platform/private_folder.h"

#include <cerrno>
#include <string>

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/error.h"

namespace optrace {

PrivateFolder::PrivateFolder() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  std::string pattern = (parent / "optrace-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot make a temporary folder: {}",
                            error ? error.message() : describe_errno(errno)),
                "Set TMPDIR to a folder that you may write to.");
  }
  path_ = pattern;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path cache_folder() {
  std::filesystem::path folder;
  if (const char* own = std::getenv("OPTRACE_CACHE_DIR"); own != nullptr && *own != '\0') {
    folder = own;
  } else if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') {
    folder = std::filesystem::path(xdg) / "optrace";
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".cache" / "optrace";
  } else {
    return {};
  }
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return {};
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return {};
  }
  return folder;
}

}  // namespace optrace
