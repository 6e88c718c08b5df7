#pragma once

#include <fcntl.h>

#include "target/agent/process/system_calls.h"

namespace optrace::agent {

/// A file that the agent has open for a moment. Its number is high: a program that has closed its
/// standard error may still write to it, and must not write into this file.
class OwnFile {
 public:
  OwnFile(const char* path, int flags)
      : number_(system_call(SYS_openat, static_cast<std::uint64_t>(AT_FDCWD), address_of(path),
                            static_cast<std::uint64_t>(flags | O_CLOEXEC))) {
    constexpr std::uint64_t kLowest[] = {1000, 256, 64, 3};  // The limit on open files may be low.
    for (const std::uint64_t lowest : kLowest) {
      if (number_ < 0 || number_ >= static_cast<long>(lowest)) return;
      const long raised = system_call(SYS_fcntl, as_argument(), F_DUPFD_CLOEXEC, lowest);
      if (raised < 0) continue;
      system_call(SYS_close, as_argument());
      number_ = raised;
    }
  }
  ~OwnFile() {
    if (number_ >= 0) system_call(SYS_close, as_argument());
  }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  explicit operator bool() const { return number_ >= 0; }
  /// The descriptor, or -errno.
  int number() const { return static_cast<int>(number_); }

 private:
  std::uint64_t as_argument() const { return static_cast<std::uint64_t>(number_); }

  long number_;
};

}  // namespace optrace::agent
