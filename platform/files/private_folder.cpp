#include "platform/files/private_folder.h"

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/file_trust.h"
#include "platform/signal_safe_set.h"

namespace optrace {

namespace {

SignalSafeSet<const PrivateFolder*, 64> folders;

constexpr std::string_view kNamePattern = "optrace-XXXXXX";
constexpr mode_t kMode = S_ISVTX | S_IRWXU;

/// Returns a lock of the folder, or nothing if another process has one.
Descriptor lock_of(const std::filesystem::path& folder) {
  Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) lock = Descriptor();
  return lock;
}

/// Removes the folders of processes that were killed.
void remove_left_ones(const std::filesystem::path& parent) {
  std::error_code error;
  std::filesystem::directory_iterator entry(parent, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    struct stat status{};
    if (name.size() != kNamePattern.size() || !name.starts_with("optrace-") ||
        ::lstat(entry->path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        (status.st_mode & ~static_cast<mode_t>(S_IFMT)) != kMode || status.st_uid != ::geteuid())
      continue;
    std::error_code ignored;
    if (const Descriptor lock = lock_of(entry->path()))
      std::filesystem::remove_all(entry->path(), ignored);
  }
}

}  // namespace

PrivateFolder::PrivateFolder() {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  if (const std::string wrong = error ? "" : distrust_of(parent); !wrong.empty()) {
    throw Error(
        ExitStatus::usage,
        fmt::format("files in the temporary folder {} are not safe: {}", parent.string(), wrong),
        "Set TMPDIR to a folder that only you can write to, or that has the sticky bit, "
        "such as /tmp.");
  }
  remove_left_ones(parent);
  std::string pattern = (parent / kNamePattern).string();
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot make a temporary folder: {}",
                            error ? error.message() : describe_errno(errno)),
                "Set TMPDIR to a folder that you may write to.");
  }
  path_ = pattern;
  lock_ = lock_of(path_);
  if (lock_) ::fchmod(lock_.get(), kMode);  // Locked first: nobody removes it meanwhile.
  folders.add(this);
}

void PrivateFolder::remove_all() noexcept {
  folders.for_each([](const PrivateFolder* folder) {
    const pid_t child = ::_Fork();
    if (child == 0) {
      ::execl("/bin/rm", "rm", "-rf", "--", folder->path_.c_str(), nullptr);
      ::_exit(127);
    }
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  });
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  folders.remove(this);
}

bool is_our_user(uid_t user) {
  return user == 0 || user == ::geteuid();
}

namespace {

/// The folder of the cache, and a folder that must exist already: a missing home folder is not
/// created. Both are empty if the environment defines no place.
struct CachePlace {
  std::filesystem::path folder;
  std::filesystem::path home;
};

CachePlace cache_place() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (auto own = variable("OPTRACE_CACHE_DIR"); !own.empty()) return {std::move(own), {}};
  if (const auto xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return {xdg / "optrace", {}};
  if (const auto home = variable("HOME"); !home.empty()) return {home / ".cache/optrace", home};
  return {};
}

/// Creates the folder if it does not exist. Returns why it can't be used, or an empty string.
std::string reason_against(const CachePlace& place) {
  if (place.folder.empty()) return "HOME is not set";
  std::error_code error;
  if (!place.home.empty() && !std::filesystem::is_directory(place.home, error))
    return fmt::format("HOME is {}, which does not exist", place.home.string());
  const std::string name = place.folder.string();
  std::filesystem::path existing = place.folder;
  while (!std::filesystem::exists(existing, error) && existing.has_relative_path())
    existing = existing.parent_path();
  if (existing == place.folder && !std::filesystem::is_directory(existing, error))
    return fmt::format("{} is not a folder", name);
  if (std::string wrong = distrust_of(existing.empty() ? "." : existing); !wrong.empty())
    return wrong;
  std::filesystem::create_directories(place.folder.parent_path(), error);
  if (::mkdir(name.c_str(), 0700) != 0 && errno != EEXIST)
    return fmt::format("{} can't be created: {}", name, describe_errno(errno));
  // Another user may have made a part of it meanwhile.
  if (std::string wrong = distrust_of(place.folder); !wrong.empty()) return wrong;
  struct stat status{};
  if (::stat(name.c_str(), &status) != 0 || status.st_uid != ::geteuid())
    return fmt::format("{} belongs to another user", name);
  // What is in the cache is trusted, so the sticky bit is not enough here.
  if ((status.st_mode & S_ISVTX) != 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format("others may write to {}", name);
  return {};
}

}  // namespace

std::filesystem::path cache_folder() {
  const CachePlace place = cache_place();
  return reason_against(place).empty() ? place.folder : std::filesystem::path();
}

std::filesystem::path cache_subfolder(std::string_view name) {
  std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  folder /= name;
  // Whatever the umask, others may not put a library or a plan there.
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return {};
  return distrust_of(folder).empty() ? folder : std::filesystem::path();
}

std::string cache_problem() {
  const CachePlace place = cache_place();
  std::string reason = reason_against(place);
  if (reason.empty() && ::access(place.folder.c_str(), W_OK | X_OK) != 0)
    reason =
        fmt::format("{} can't be written to: {}", place.folder.string(), describe_errno(errno));
  if (reason.empty()) return {};
  return reason + ". Set OPTRACE_CACHE_DIR to a folder that only you can write to.";
}

}  // namespace optrace
