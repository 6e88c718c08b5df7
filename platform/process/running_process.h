#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "platform/files/descriptor.h"

namespace optrace {

/// The fields of /proc/PID/status. Fields that are missing there keep their defaults.
struct ProcessStatus {
  std::string name;                       ///< As set by the process; escaped by the kernel.
  char state = '?';                       ///< R, S, D, T (stopped), t (by a tracer), Z, X, I.
  pid_t process = 0;                      ///< Tgid: the process, also in a thread's status.
  pid_t thread = 0;                       ///< Pid.
  pid_t tracer = 0;                       ///< 0: no tracer, or none that we can see.
  std::vector<pid_t> ids;                 ///< NSpid: from our PID namespace to its own.
  std::array<std::uint32_t, 4> users{};   ///< Real, effective, saved, file access.
  std::array<std::uint32_t, 4> groups{};  ///< In the same order as `users`.
  std::uint64_t blocked = 0;              ///< SigBlk of the thread; signal N is bit N - 1.
  std::uint64_t permitted = 0;            ///< CapPrm, as a bit set.
  std::uint64_t effective = 0;            ///< CapEff.
  int seccomp = 0;                        ///< 1: strict; 2: filters.
  int threads = 0;
  bool has_memory = false;  ///< False for kernel threads and ended processes.

  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
};
ProcessStatus parse_process_status(std::string_view text);

/// A mapping in /proc/PID/maps: of a file, or of the code that the kernel maps (kVdso).
struct MappedPart {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< In the file.
  bool executable = false;
  std::string path;  ///< In the process's mount namespace; may end with " (deleted)".
};
inline constexpr std::string_view kVdso = "[vdso]";
/// Returns the mappings of files and the kernel's code. Lines in another format than the kernel's
/// are ignored.
std::vector<MappedPart> parse_process_maps(std::string_view text);

/// Returns `text` for use in a message: at most one line, and unable to control a terminal.
std::string shown(std::string_view text);

/// A process as shown by /proc. If its PID is reused later, the object still refers to the original
/// process: reading then fails with ESRCH.
class RunningProcess {
 public:
  /// Throws Error(usage) if there is no such process, or if `process` is a thread of one.
  explicit RunningProcess(pid_t process);

  pid_t id() const noexcept { return id_; }
  bool ended() const noexcept;

  struct Text {
    std::string text;
    int error = 0;  ///< errno; 0: everything was read.
  };
  /// Reads a file in the process's folder of /proc. The error is EFBIG above `limit` bytes.
  Text read(const char* name, std::size_t limit) const;
  /// Reads the target of a link in the process's folder of /proc.
  Text read_link(const char* name) const;
  /// Opens a file in the process's folder of /proc. Sets errno if it can't be opened.
  Descriptor open(const char* name, int flags) const;

  /// Throws Error(usage) if it can't be read any more.
  ProcessStatus status() const;

  static constexpr std::size_t kMapsLimit = std::size_t{64} << 20;  ///< In bytes.
  /// Returns the mappings of files; incomplete or empty if maps can't be read or exceeds
  /// kMapsLimit.
  std::vector<MappedPart> mapped_parts() const;

  /// The pidfd.
  int handle() const noexcept { return handle_.get(); }

  /// Opens a regular file for reading, by a path as the process sees it. Links and `..` don't lead
  /// out of its root. Does not wait, and refuses files that are not regular (EINVAL). Sets errno.
  Descriptor open_inside(const std::filesystem::path& path) const;

 private:
  pid_t id_;
  Descriptor handle_;  ///< pidfd.
  Descriptor folder_;  ///< /proc/PID
};

/// Same as RunningProcess::open_inside(), but below the open folder `root` instead of a process's
/// root.
Descriptor open_below(const Descriptor& root, const std::filesystem::path& path);

/// Reads a whole open file. The error is EFBIG above `limit` bytes.
RunningProcess::Text read_all(const Descriptor& file, std::size_t limit);

}  // namespace optrace
