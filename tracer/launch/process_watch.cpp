#include "tracer/launch/process_watch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pytorch/installed/wheel_libraries.h"

namespace optrace {

ProcessWatch::ProcessWatch(pid_t process)
    : process_(process), end_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {}

bool ProcessWatch::ended() const {
  if (!end_) return ::kill(process_, 0) != 0 && errno == ESRCH;  // Linux before 5.3.
  pollfd watched{end_.get(), POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0;
}

bool ProcessWatch::ends_within(std::chrono::milliseconds limit) const {
  using Clock = std::chrono::steady_clock;
  for (const auto end = Clock::now() + limit; !ended(); std::this_thread::sleep_for(kWatchPause))
    if (Clock::now() >= end) return false;
  return true;
}

namespace {

/// Returns true for a process that has a library of torch in its memory, but for Inductor's
/// processes that compile kernels, or try (cpu_vec_isa.py) which instructions the CPU has.
bool uses_torch(pid_t process) {
  std::ifstream command(fmt::format("/proc/{}/cmdline", process));
  for (std::string word; std::getline(command, word, '\0');)
    for (const char* const inductors : {"_inductor", "\nfrom ctypes import cdll\n"})
      if (word.find(inductors) != std::string::npos) return false;
  const std::string library = fmt::format("/{}", kTorchCpu);
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

}  // namespace

void ChildrenWatch::look() {
  constexpr std::chrono::milliseconds kBetweenLooks{200};
  const Clock::time_point now = Clock::now();
  if (used_torch_ || now - looked_ < kBetweenLooks) return;
  looked_ = now;
  had_torch_ = std::exchange(have_torch_, {});
  look_below(process_);
}

void ChildrenWatch::look_below(pid_t process) {
  std::error_code ended;
  using Tasks = std::filesystem::directory_iterator;
  for (Tasks task(fmt::format("/proc/{}/task", process), ended); !ended && task != Tasks();
       task.increment(ended)) {
    std::ifstream children(task->path() / "children");
    for (pid_t child = 0; children >> child;) {
      if (uses_torch(child)) {
        used_torch_ = used_torch_ || had_torch_.contains(child);
        have_torch_.insert(child);
      }
      look_below(child);
    }
  }
}

// The process's statistics include the page faults of the children that it has waited for (cminflt,
// the 11th field of proc_pid_stat(5)).
bool waited_for_children(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  if (!std::getline(file, line)) return false;
  // The second field, a name in parentheses, may contain anything.
  std::istringstream rest(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  constexpr int kFieldsBetween = 8;
  std::string field;
  for (int i = 0; i < kFieldsBetween; ++i) rest >> field;
  std::uint64_t faults = 0;
  return rest >> faults && faults != 0;
}

}  // namespace optrace
