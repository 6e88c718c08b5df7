#include "platform/output_file.h"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include "platform/error.h"

namespace optrace {

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)) {
  const std::string remedy = "Name a file in an existing folder that you may write to.";
  std::error_code ignored;
  if (path_.empty() || std::filesystem::is_directory(path_, ignored)) {
    throw Error(ExitStatus::usage,
                fmt::format("cannot write '{}': it is not a file name", path_.string()), remedy);
  }
  std::string pattern = path_.string() + ".XXXXXX";
  descriptor_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    throw Error(ExitStatus::usage,
                fmt::format("cannot write {}: {}", path_.string(), describe_errno(errno)), remedy);
  }
  temporary_ = pattern;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("writing {} failed: {}", path_.string(), describe_errno(errno)),
                  "Free some space, or name a file on another disk.");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::commit() {
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  if (!closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("finishing {} failed: {}", path_.string(), describe_errno(errno)),
                "Free some space, or name a file on another disk.");
  }
  temporary_.clear();
}

}  // namespace optrace
