#include "platform/files/file_trust.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "platform/files/descriptor.h"
#include "platform/files/private_folder.h"
#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * kNanoseconds + time.tv_nsec;
}

/// Returns true if a group has no members but root and the command's own user.
bool find_only_us_in(gid_t number) {
  const passwd* const entry = ::getpwuid(::geteuid());
  if (entry == nullptr) return false;
  const std::string user = entry->pw_name;
  const gid_t own = entry->pw_gid;
  const group* const found = ::getgrgid(number);
  if (found == nullptr) return false;
  // Many systems give every user a group of the same name; others put all users into one group.
  if (number == own && number != 0 && user != found->gr_name) return false;
  for (char** member = found->gr_mem; *member != nullptr; ++member)
    if (*member != user && std::string_view(*member) != "root") return false;
  bool only_us = true;
  ::setpwent();
  while (const passwd* const other = ::getpwent())
    if (other->pw_gid == number && !is_our_user(other->pw_uid)) only_us = false;
  ::endpwent();
  return only_us;
}

bool only_us_in(gid_t number) {
  static std::map<gid_t, bool> known;
  const auto [entry, is_new] = known.try_emplace(number);
  if (is_new) entry->second = find_only_us_in(number);
  return entry->second;
}

std::string distrust_of_part(const std::filesystem::path& part, const struct stat& status) {
  if (!is_our_user(status.st_uid)) return fmt::format("{} belongs to another user", part.string());
  const bool sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
  if (sticky || S_ISLNK(status.st_mode)) return {};
  if ((status.st_mode & S_IWOTH) != 0)
    return fmt::format("everybody may write to {}", part.string());
  if ((status.st_mode & S_IWGRP) != 0 && !only_us_in(status.st_gid))
    return fmt::format("a group with other users may write to {}", part.string());
  return {};
}

/// A walk along a path by open descriptors, one part and one link at a time.
class TrustWalk {
 public:
  explicit TrustWalk(const std::filesystem::path& path) { add(std::filesystem::absolute(path)); }

  /// Walks to the end. Returns false, with errno, if there is none.
  bool finish() {
    while (!left_.empty()) {
      const std::string name = std::move(left_.back());
      left_.pop_back();
      if (!step(name)) return false;
    }
    return true;
  }

  /// Returns why other users could change where the path leads, at the last such part.
  const std::string& wrong() const { return wrong_; }

 private:
  static constexpr int kMostLinks = 40;

  /// Puts a path in front of the parts that are left.
  void add(const std::filesystem::path& path) {
    const std::vector<std::string> parts(path.begin(), path.end());
    left_.insert(left_.end(), parts.rbegin(), parts.rend());
  }

  bool step(const std::string& name) {
    if (name.empty() || name == ".") return true;
    Descriptor part(::openat(folder_.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status{};
    if (!part || ::fstat(part.get(), &status) != 0) return false;
    const std::filesystem::path shown = (shown_ / name).lexically_normal();
    if (std::string wrong = distrust_of_part(shown, status); !wrong.empty())
      wrong_ = std::move(wrong);
    if (!S_ISLNK(status.st_mode)) {
      folder_ = std::move(part);
      shown_ = shown;
      return true;
    }
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(part.get(), "", target.data(), target.size());
    if (size < 0) return false;
    if (++links_ > kMostLinks || size == PATH_MAX) {
      errno = ELOOP;
      return false;
    }
    add(std::string_view(target.data(), static_cast<std::size_t>(size)));
    return true;
  }

  Descriptor folder_{AT_FDCWD};
  std::filesystem::path shown_;
  std::vector<std::string> left_;  // The next one is the last.
  std::string wrong_;
  int links_ = 0;
};

/// A walk through what the Python of a virtual environment runs or imports at its start.
class EnvironmentWalk {
 public:
  void environment(const std::filesystem::path& folder) {
    judge(folder / "bin/python");
    // Python looks for its settings in both places.
    for (const char* const place : {"pyvenv.cfg", "bin/pyvenv.cfg"})
      if (std::filesystem::exists(folder / place, error_)) settings(folder / place, folder);
    for (const char* const name : {"lib", "lib64"})
      if (std::filesystem::exists(folder / name, error_)) libraries(folder / name);
  }

  /// Returns the first reason found; empty if there is none.
  const std::string& wrong() const { return wrong_; }

 private:
  using Path = std::filesystem::path;

  static constexpr off_t kMostSettings = 1 << 20;  // Bytes of a file; pip's have below 1 KiB.
  static constexpr std::size_t kMostEntries = 1'000'000;
  static constexpr std::size_t kMostFolders = 1'000;

  void judge(const Path& path) {
    if (wrong_.empty()) wrong_ = distrust_of(path);
  }

  std::vector<Path> in(const Path& folder) {
    std::vector<Path> entries;
    std::filesystem::directory_iterator entry(folder, error_);
    for (; !error_ && entry != std::filesystem::directory_iterator(); entry.increment(error_)) {
      if (++entries_ > kMostEntries && wrong_.empty())
        wrong_ = folder.string() + " has too many entries";
      if (!wrong_.empty()) break;
      entries.push_back(entry->path());
    }
    return entries;
  }

  /// Returns the lines of a file, which is judged before it is read.
  std::vector<std::string> lines_of(const Path& path) {
    judge(path);
    if (!wrong_.empty()) return {};
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    if (status.st_size > kMostSettings) {
      wrong_ = path.string() + " is too large";
      return {};
    }
    std::string text(static_cast<std::size_t>(status.st_size), '\0');
    const ssize_t size = ::pread(file.get(), text.data(), text.size(), 0);
    if (size < 0) return {};
    text.resize(static_cast<std::size_t>(size));
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
      if (end > at) lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  void settings(const Path& path, const Path& folder) {
    Path home;
    bool with_packages = false;
    for (const std::string& line : lines_of(path)) {
      const std::size_t equals = line.find('=');
      if (equals == std::string::npos) continue;
      const std::string key = lower(trimmed(std::string_view(line).substr(0, equals)));
      const std::string_view value = trimmed(std::string_view(line).substr(equals + 1));
      if (key == "home" && home.empty()) home = value;
      if (key == "include-system-site-packages") with_packages = lower(value) == "true";
    }
    if (home.empty()) return;
    judge(home);
    for (const Path& version : in(folder / "lib")) standard_library(home, version.filename());
    // Debian has packages beside the versions too.
    if (with_packages)
      for (const char* const name : {"lib", "local/lib"})
        if (std::filesystem::exists(home / ".." / name, error_)) libraries(home / ".." / name);
  }

  /// Judges the modules of Python itself, which it looks for in its home and above it.
  void standard_library(const Path& home, const Path& version) {
    for (Path above = home; wrong_.empty(); above = above.parent_path()) {
      const Path library = above / "lib" / version;
      if (std::filesystem::exists(library / "os.py", error_)) return modules(library, false);
      if (above == above.parent_path()) return;
    }
  }

  void libraries(const Path& folder) {
    judge(folder);
    for (const Path& library : in(folder))
      for (const char* const name : {"site-packages", "dist-packages"})
        if (std::filesystem::exists(library / name, error_)) modules(library / name, true);
  }

  /// Judges a folder that Python imports from and each of its entries; in one of packages also
  /// what its .pth files name.
  void modules(const Path& folder, bool with_pth) {
    judge(folder);
    const Path real = std::filesystem::canonical(folder, error_);
    if (!wrong_.empty() || error_ || !seen_.insert(real).second) return;
    if (seen_.size() > kMostFolders) wrong_ = folder.string() + " is one folder too many";
    for (const Path& entry : in(real)) {
      struct stat status{};
      if (!wrong_.empty() || ::lstat(entry.c_str(), &status) != 0) continue;
      // The folder was walked to above, so that only links lead elsewhere.
      wrong_ = distrust_of_part(entry, status);
      if (S_ISLNK(status.st_mode) && std::filesystem::exists(entry, error_)) judge(entry);
      if (with_pth && entry.extension() == ".pth")
        for (const std::string& line : lines_of(entry)) named(line, folder);
    }
  }

  /// Judges what a line of a .pth file names: a path, or, if Python runs the line, all absolute
  /// paths that it quotes.
  void named(std::string_view line, const Path& folder) {
    if (line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);  // The mark of UTF-8.
    if (line.starts_with('#')) return;
    if (!line.starts_with("import ") && !line.starts_with("import\t"))
      return importable(
          // Python joins them as text, whatever links the folder's path has.
          (folder / line.substr(0, line.find_last_not_of(" \t\v\f") + 1)).lexically_normal());
    for (std::size_t at = 0; (at = line.find_first_of("'\"", at)) != std::string_view::npos;) {
      const std::size_t end = std::min(line.find(line[at], at + 1), line.size());
      if (const std::string_view path = line.substr(at + 1, end - at - 1);
          path.starts_with('/') && path.size() > 1)
        importable(path);
      at = end + 1;
    }
  }

  void importable(const Path& path) {
    if (!wrong_.empty()) return;
    if (++named_ > kMostFolders) wrong_ = path.string() + " is one path too many";
    const std::filesystem::file_status status = std::filesystem::status(path, error_);
    if (std::filesystem::is_directory(status)) return modules(path, false);
    if (std::filesystem::exists(status)) judge(path);
  }

  std::error_code error_;
  std::string wrong_;
  std::set<Path> seen_;
  std::size_t entries_ = 0;
  std::size_t named_ = 0;
};

}  // namespace

std::optional<FileState> state_of(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return FileState{.device = status.st_dev,
                   .inode = status.st_ino,
                   .size = static_cast<std::uint64_t>(status.st_size),
                   .modified = nanoseconds(status.st_mtim),
                   .changed = nanoseconds(status.st_ctim),
                   .owner = status.st_uid};
}

bool is_settled(const FileState& state) {
  constexpr std::int64_t kMargin = 2 * kNanoseconds;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::max(state.changed, state.modified) + kMargin < nanoseconds(now);
}

std::string text_of(const FileState& state) {
  return fmt::format("{:x}-{:x}-{:x}-{:x}-{:x}-{:x}", state.device, state.inode, state.size,
                     state.modified, state.changed, state.owner);
}

std::optional<std::string> content_hash(const std::filesystem::path& path,
                                        const FilePart& left_out) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> sum(XXH3_createState(),
                                                                     &XXH3_freeState);
  XXH3_128bits_reset(sum.get());
  // Read, not mapped: another process may truncate it meanwhile.
  std::vector<char> buffer(
      std::clamp<std::size_t>(static_cast<std::size_t>(status.st_size) + 1, 1 << 12, 1 << 20));
  for (std::uint64_t at = 0;;) {
    if (at == left_out.offset) at += left_out.size;
    std::uint64_t length = buffer.size();
    if (at < left_out.offset) length = std::min(length, left_out.offset - at);
    const ssize_t size = ::pread(file.get(), buffer.data(), length, static_cast<off_t>(at));
    if (size < 0) return std::nullopt;
    if (size == 0) break;
    XXH3_128bits_update(sum.get(), buffer.data(), static_cast<std::size_t>(size));
    at += static_cast<std::uint64_t>(size);
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(sum.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

bool is_ours(const FileState& state) {
  return is_our_user(state.owner);
}

std::string distrust_of(const std::filesystem::path& path) {
  TrustWalk walk(path);
  if (walk.finish()) return walk.wrong();
  return fmt::format("{} can't be found: {}", path.string(),
                     std::generic_category().message(errno));
}

std::string distrust_of_environment(const std::filesystem::path& folder) {
  EnvironmentWalk walk;
  walk.environment(folder);
  return walk.wrong();
}

}  // namespace optrace
