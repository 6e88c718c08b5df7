#include "platform/process/running_process.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <optional>

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

constexpr std::size_t kStatusLimit = 1 << 20;
constexpr std::size_t kShownLimit = 200;

/// Removes the text up to and including `mark` from `rest`, and returns it without `mark`.
std::string_view cut(std::string_view& rest, char mark) {
  const std::size_t end = rest.find(mark);
  const std::string_view before = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return before;
}

std::string_view word(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  const std::string_view found = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(found.size());
  return found;
}

template <typename Number>
std::optional<Number> number(std::string_view text, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename Number>
void read_number(std::string_view text, Number& value, int base = 10) {
  value = number<Number>(word(text), base).value_or(value);
}

void read_ids(std::string_view text, std::array<std::uint32_t, 4>& ids) {
  for (std::uint32_t& id : ids) id = number<std::uint32_t>(word(text)).value_or(id);
}

/// The kernel escapes only newlines in a path, as \012.
std::string unescaped(std::string_view path) {
  constexpr std::string_view kNewline = "\\012";
  std::string result;
  for (std::size_t at = 0; at < path.size();) {
    if (path.substr(at).starts_with(kNewline)) {
      result += '\n';
      at += kNewline.size();
    } else {
      result += path[at++];
    }
  }
  return result;
}

[[noreturn]] void fail_as_gone(pid_t process) {
  throw Error(ExitStatus::usage, fmt::format("there is no process {}", process),
              "Give the PID of a running Python, as listed by `ps -C python3` or `pgrep -af "
              "python`. PIDs inside a container differ from those outside.");
}

}  // namespace

std::string shown(std::string_view text) {
  return printable_start(text, kShownLimit);
}

ProcessStatus parse_process_status(std::string_view text) {
  ProcessStatus status;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    const std::string_view key = cut(line, ':');
    if (key == "Name") {
      line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      status.name = line;
    } else if (key == "State") {
      const std::string_view letter = word(line);
      if (!letter.empty()) status.state = letter[0];
    } else if (key == "Tgid") {
      read_number(line, status.process);
    } else if (key == "Pid") {
      read_number(line, status.thread);
    } else if (key == "TracerPid") {
      read_number(line, status.tracer);
    } else if (key == "NSpid") {
      while (const auto id = number<pid_t>(word(line))) status.ids.push_back(*id);
    } else if (key == "Uid") {
      read_ids(line, status.users);
    } else if (key == "Gid") {
      read_ids(line, status.groups);
    } else if (key == "SigBlk") {
      read_number(line, status.blocked, 16);
    } else if (key == "CapPrm") {
      read_number(line, status.permitted, 16);
    } else if (key == "CapEff") {
      read_number(line, status.effective, 16);
    } else if (key == "Seccomp") {
      read_number(line, status.seccomp);
    } else if (key == "Threads") {
      read_number(line, status.threads);
    } else if (key == "VmSize") {
      status.has_memory = true;
    }
  }
  return status;
}

std::vector<MappedPart> parse_process_maps(std::string_view text) {
  std::vector<MappedPart> parts;
  while (!text.empty()) {
    std::string_view line = cut(text, '\n');
    std::string_view range = word(line);
    const auto start = number<std::uint64_t>(cut(range, '-'), 16);
    const auto end = number<std::uint64_t>(range, 16);
    const std::string_view rights = word(line);
    const auto offset = number<std::uint64_t>(word(line), 16);
    const std::string_view device = word(line);
    const auto inode = number<std::uint64_t>(word(line));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!start || !end || *start >= *end || rights.size() != 4 || !offset || device.empty() ||
        !inode || !(line.starts_with('/') || line == kVdso)) {
      continue;
    }
    parts.push_back({.start = *start,
                     .end = *end,
                     .offset = *offset,
                     .executable = rights[2] == 'x',
                     .path = unescaped(line)});
  }
  return parts;
}

RunningProcess::RunningProcess(pid_t process) : id_(process) {
  if (process <= 0) {
    throw Error(ExitStatus::usage, fmt::format("{} is not a process ID", process),
                "Give the PID of a running Python, a number above 0.");
  }
  // By number: glibc has these functions since 2.36, and openat2 in fcntl.h even later.
  handle_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  const int error = errno;
  const std::string folder = fmt::format("/proc/{}", process);
  folder_ = Descriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (handle_ && folder_) return;
  if (handle_) {
    if (ended()) fail_as_gone(process);
    throw Error(ExitStatus::failed,
                fmt::format("process {} runs, but {} does not show it", process, folder),
                "It belongs to another user, and /proc is mounted with hidepid; run optrace as "
                "that user or as root (sudo optrace attach ...).");
  }
  if (error == ENOSYS || error == EPERM) {
    throw Error(ExitStatus::failed,
                fmt::format("process {} can't be opened: {}", process, describe_errno(error)),
                "Attaching needs Linux 5.6 or later. If a sandbox (seccomp) forbids pidfd_open, "
                "run optrace outside of it.");
  }
  if (folder_) {
    const ProcessStatus found = parse_process_status(read("status", kStatusLimit).text);
    if (found.process != 0 && found.process != process) {
      throw Error(ExitStatus::usage,
                  fmt::format("{} is a thread of process {}", process, found.process),
                  fmt::format("Give the PID of the process: optrace attach {}", found.process));
    }
  }
  fail_as_gone(process);
}

bool RunningProcess::ended() const noexcept {
  pollfd waited{.fd = handle_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&waited, 1, 0) != 0;
}

Descriptor RunningProcess::open(const char* name, int flags) const {
  return Descriptor(::openat(folder_.get(), name, flags | O_CLOEXEC));
}

RunningProcess::Text RunningProcess::read(const char* name, std::size_t limit) const {
  const Descriptor file = open(name, O_RDONLY);
  if (!file) return {.text = {}, .error = errno};
  return read_all(file, limit);
}

RunningProcess::Text RunningProcess::read_link(const char* name) const {
  std::string text(PATH_MAX, '\0');
  const ssize_t size = ::readlinkat(folder_.get(), name, text.data(), text.size());
  if (size < 0) return {.text = {}, .error = errno};
  text.resize(static_cast<std::size_t>(size));
  return {.text = std::move(text), .error = 0};
}

ProcessStatus RunningProcess::status() const {
  const Text text = read("status", kStatusLimit);
  if (text.error != 0) fail_as_gone(id_);
  return parse_process_status(text.text);
}

std::vector<MappedPart> RunningProcess::mapped_parts() const {
  return parse_process_maps(read("maps", kMapsLimit).text);
}

Descriptor RunningProcess::open_inside(const std::filesystem::path& path) const {
  const Descriptor root = open("root", O_PATH | O_DIRECTORY);
  return root ? open_below(root, path) : Descriptor();
}

// Linux has openat2 for nearly as long as pidfd_open; without it, nothing is opened.
Descriptor open_below(const Descriptor& root, const std::filesystem::path& path) {
  // Devices and pipes react when they are opened, so the type of the file is checked first.
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const Descriptor found(
      static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
  struct stat about{};
  if (!found || ::fstat(found.get(), &about) != 0) return Descriptor();
  if (!S_ISREG(about.st_mode)) {
    errno = EINVAL;
    return Descriptor();
  }
  const std::string again = fmt::format("/proc/self/fd/{}", found.get());
  return Descriptor(::open(again.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

RunningProcess::Text read_all(const Descriptor& file, std::size_t limit) {
  RunningProcess::Text result;
  constexpr std::size_t kPiece = 1 << 16;
  while (true) {
    const std::size_t before = result.text.size();
    result.text.resize(before + kPiece);
    const ssize_t size = ::read(file.get(), result.text.data() + before, kPiece);
    result.text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (size == 0) return result;
    if (size < 0 && errno != EINTR) result.error = errno;
    if (result.text.size() > limit) result.error = EFBIG;
    if (result.error != 0) return result;
  }
}

}  // namespace optrace
