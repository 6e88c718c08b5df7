#include "platform/files/output_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include "platform/error.h"

namespace optrace {
namespace {

constexpr std::size_t kMostCollected = 1 << 16;  // Bytes.

constexpr const char* kRemedy = "Name a file in an existing folder that you may write to.";

Error cannot_write(const std::filesystem::path& path, int error_number) {
  return {ExitStatus::usage,
          fmt::format("cannot write {}: {}", path.string(), describe_errno(error_number)), kRemedy};
}

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_.empty() || std::filesystem::is_directory(path_, ignored)) {
    throw Error(ExitStatus::usage,
                fmt::format("cannot write '{}': it is not a file name", path_.string()), kRemedy);
  }
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    if (::access(path_.c_str(), W_OK) != 0) throw cannot_write(path_, errno);
    // Opened by the first write: a pipe's reader would take the end of a trial for the end of the
    // data.
    return;
  }
  if (std::filesystem::is_symlink(path_, ignored)) {
    auto target = std::filesystem::weakly_canonical(path_, ignored);
    if (!ignored) path_ = std::move(target);
  }
  std::string pattern = path_.string() + ".XXXXXX";
  descriptor_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor_ < 0) throw cannot_write(path_, errno);
  temporary_ = pattern;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::open_in_place() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
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
  if (!closed || (!in_place && ::rename(temporary_.c_str(), path_.c_str()) != 0)) {
    throw Error(ExitStatus::failed,
                fmt::format("finishing {} failed: {}", path_.string(), describe_errno(errno)),
                "Free some space, or name a file on another disk.");
  }
  temporary_.clear();
}

}  // namespace optrace
