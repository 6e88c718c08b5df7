#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "platform/descriptor.h"

namespace optrace {

/// What /proc/PID/status tells of a process; what a line doesn't tell is left as it is here.
struct ProcessStatus {
  std::string name;        ///< As the process calls itself; escaped by the kernel.
  char state = '?';        ///< The letter: R, S, D, T (stopped), t (by a tracer), Z, X, I.
  pid_t process = 0;       ///< Tgid: of the whole process, also where a thread's status was read.
  pid_t thread = 0;        ///< Pid.
  pid_t tracer = 0;        ///< 0: nobody traces it, or nobody whom we see.
  std::vector<pid_t> ids;  ///< NSpid: from our PID namespace to its own.
  std::array<std::uint32_t, 4> users{};   ///< Real, effective, saved, of file access.
  std::array<std::uint32_t, 4> groups{};  ///< As users.
  std::uint64_t blocked = 0;              ///< SigBlk: of the thread, signal N as bit N - 1.
  std::uint64_t permitted = 0;            ///< CapPrm, as a set of bits.
  std::uint64_t effective = 0;            ///< CapEff.
  int seccomp = 0;                        ///< 1: strict; 2: filters.
  int threads = 0;
  bool has_memory = false;  ///< False for kernel threads and for what has ended.

  bool ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
};
ProcessStatus parse_process_status(std::string_view text);

/// A line of /proc/PID/maps that has a file behind it.
struct MappedPart {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t offset = 0;  ///< In the file.
  bool executable = false;
  std::string path;  ///< As the process's mount namespace has it; " (deleted)" is left on it.
};
/// Lines that don't look like what the kernel writes are left out.
std::vector<MappedPart> parse_process_maps(std::string_view text);

/// `text` fit for a message: at most one line long, without what drives a terminal.
std::string shown(std::string_view text);

/// A process as /proc shows it. Once it is open the number can be given to another process and all
/// is still told of the one that was opened: reading then fails with ESRCH.
class RunningProcess {
 public:
  /// Throws Error(usage) where there is no such process, or `process` is a thread of one.
  explicit RunningProcess(pid_t process);

  pid_t id() const noexcept { return id_; }
  bool ended() const noexcept;

  struct Text {
    std::string text;
    int error = 0;  ///< errno; 0: all was read.
  };
  /// A file in its folder of /proc, EFBIG above `limit` bytes.
  Text read(const char* name, std::size_t limit) const;
  /// Where a link in its folder of /proc leads.
  Text read_link(const char* name) const;
  /// Opens what is in its folder of /proc; sets errno where it can't.
  Descriptor open(const char* name, int flags) const;

  /// Throws Error(usage) when it can't be read any more.
  ProcessStatus status() const;

  static constexpr std::size_t kMapsLimit = std::size_t{64} << 20;  ///< Bytes of text.
  /// What of files is mapped; nothing when that can't be read, or is longer.
  std::vector<MappedPart> mapped_parts() const;

  /// Its pidfd.
  int handle() const noexcept { return handle_.get(); }

  /// Opens a regular file for reading by a path of its own: links and `..` don't lead out of its
  /// root, nothing is waited for, and what is no regular file is refused (EINVAL). Sets errno.
  Descriptor open_inside(const std::filesystem::path& path) const;

 private:
  pid_t id_;
  Descriptor handle_;  ///< pidfd.
  Descriptor folder_;  ///< /proc/PID
};

/// What RunningProcess::open_inside() does, below the open folder `root` in place of a process's
/// own.
Descriptor open_below(const Descriptor& root, const std::filesystem::path& path);

/// All of an open file, EFBIG above `limit` bytes.
RunningProcess::Text read_all(const Descriptor& file, std::size_t limit);

}  // namespace optrace
