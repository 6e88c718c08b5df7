#include "platform/files/output_file.h"

#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/signal_safe_set.h"

namespace optrace {
namespace {

constexpr std::size_t kMostCollected = 1 << 16;  // Bytes.

// Those with a temporary file.
SignalSafeSet<const OutputFile*, 64> unfinished;

constexpr const char* kRemedy = "Name a file in an existing folder that you may write to.";

Error cannot_write(const std::filesystem::path& path, int error_number) {
  return {ExitStatus::usage,
          fmt::format("cannot write {}: {}", path.string(), describe_errno(error_number)), kRemedy};
}

/// Returns true for a link or a pipe that another user has put into a folder like /tmp. Linux
/// follows and opens none with fs.protected_symlinks and fs.protected_fifos, which not every system
/// sets.
bool is_of_a_stranger(const Descriptor& folder, const Descriptor& file) {
  struct stat above{};
  struct stat status{};
  if (::fstat(folder.get(), &above) != 0 || ::fstat(file.get(), &status) != 0) return true;
  const bool shared = (above.st_mode & S_ISVTX) != 0 && (above.st_mode & S_IWOTH) != 0;
  return shared && (S_ISLNK(status.st_mode) || S_ISFIFO(status.st_mode)) &&
         status.st_uid != ::geteuid() && status.st_uid != above.st_uid;
}

/// Follows the links at the end of a path.
NameInFolder place_of(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;
  int from = AT_FDCWD;
  NameInFolder place;
  std::filesystem::path next = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    const std::filesystem::path parent = next.has_parent_path() ? next.parent_path() : ".";
    Descriptor folder(::openat(from, parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder) throw cannot_write(path, errno);
    place = {std::move(folder), next.filename().string()};
    const Descriptor file(
        ::openat(place.folder.get(), place.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!file) return place;  // It doesn't exist.
    if (is_of_a_stranger(place.folder, file)) throw cannot_write(path, EACCES);
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlinkat(file.get(), "", target.data(), target.size());
    if (size < 0) return place;  // It is no link.
    if (size == PATH_MAX) throw cannot_write(path, ENAMETOOLONG);
    next = std::string_view(target.data(), static_cast<std::size_t>(size));
    from = place.folder.get();
  }
  throw cannot_write(path, ELOOP);
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_.empty() || std::filesystem::is_directory(path_, ignored)) {
    throw Error(ExitStatus::usage,
                fmt::format("cannot write '{}': it is not a file name", path_.string()), kRemedy);
  }
  place_ = place_of(path_);
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    if (::access(path_.c_str(), W_OK) != 0) throw cannot_write(path_, errno);
    // Opened by the first write: a pipe's reader would take the end of a trial for the end of the
    // data.
    return;
  }
  const std::string folder = fmt::format("/proc/self/fd/{}/", place_.folder.get());
  std::string pattern = folder + place_.name + ".XXXXXX";
  descriptor_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor_ < 0) throw cannot_write(path_, errno);
  temporary_ = pattern.substr(folder.size());
  unfinished.add(this);
}

OutputFile::~OutputFile() {
  unfinished.remove(this);
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlinkat(place_.folder.get(), temporary_.c_str(), 0);
}

void OutputFile::remove_unfinished() noexcept {
  unfinished.for_each([](const OutputFile* file) {
    ::unlinkat(file->place_.folder.get(), file->temporary_.c_str(), 0);
  });
}

void OutputFile::open_in_place() {
  const Descriptor file(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) throw cannot_write(path_, errno);
  if (is_of_a_stranger(place_.folder, file)) throw cannot_write(path_, EACCES);
  descriptor_ = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
  if (descriptor_ < 0) throw cannot_write(path_, errno);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

void OutputFile::write(std::string_view text) {
  if (collected_.size() + text.size() >= kMostCollected) {
    write_collected();
    if (text.size() >= kMostCollected) {
      write_now(text);
      return;
    }
  }
  collected_ += text;
}

void OutputFile::write_collected() {
  write_now(collected_);
  collected_.clear();
}

void OutputFile::write_now(std::string_view text) {
  if (descriptor_ < 0) open_in_place();
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("writing {} failed: {}", path_.string(), describe_errno(errno)),
                  "Free some space, or name a file on another disk.");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void OutputFile::commit() {
  write_collected();
  const bool closed = descriptor_ < 0 || ::close(std::exchange(descriptor_, -1)) == 0;
  const bool in_place = temporary_.empty();
  const int folder = place_.folder.get();
  if (!closed ||
      (!in_place && ::renameat(folder, temporary_.c_str(), folder, place_.name.c_str()) != 0)) {
    throw Error(ExitStatus::failed,
                fmt::format("finishing {} failed: {}", path_.string(), describe_errno(errno)),
                "Free some space, or name a file on another disk.");
  }
  unfinished.remove(this);
  temporary_.clear();
}

}  // namespace optrace
