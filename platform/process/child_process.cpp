#include "platform/process/child_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "platform/signal_safe_set.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX names no header for it.

namespace optrace {
namespace {

// The process groups of programs that were not waited for.
SignalSafeSet<pid_t, 256> groups;

std::vector<std::string> merged_environment(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> merged;
  // Existing variables keep their position: programs list their environment in order.
  std::vector<bool> done(changes.size());
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string& text = merged.emplace_back(*entry);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const auto& [name, value] = changes[i];
      if (!text.starts_with(name) || !std::string_view(text).substr(name.size()).starts_with('='))
        continue;
      text.resize(name.size() + 1);
      text += value;
      done[i] = true;
    }
  }
  for (std::size_t i = 0; i < changes.size(); ++i)
    if (!done[i]) merged.emplace_back(changes[i].first).append("=").append(changes[i].second);
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// Starts a process that leads a process group of its own and kills the group when the calling
/// thread has ended. Returns its PID, or a negative number.
pid_t start_guard() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // The guard inherits this: nothing else ends it.
  const pid_t parent = ::getpid();
  const pid_t guard = ::fork();
  if (guard == 0) {  // Async-signal-safe calls only.
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::close_range(0, ~0U, 0);  // It holds no file of this process open, such as a lock.
    int signal = 0;
    while (::getppid() == parent && signal != SIGTERM) ::sigwait(&all, &signal);
    ::kill(0, SIGKILL);
    ::_exit(0);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (guard > 0) ::setpgid(guard, guard);  // Both do this, because either may run first.
  return guard;
}

/// Runs in the child between fork and exec: async-signal-safe calls only. It joins `group`; 0: a
/// new one.
[[noreturn]] void become(const ChildProcess::Options& options, pid_t group, char* const* arguments,
                         char** environment, int report) {
  if (options.own_process_group) ::setpgid(0, group);
  struct sigaction normal{};
  normal.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction ours{};
    if (options.keeps_ignored && signal != SIGPIPE && ::sigaction(signal, nullptr, &ours) == 0 &&
        ours.sa_handler == SIG_IGN) {  // The command itself ignores SIGPIPE.
      continue;
    }
    ::sigaction(signal, &normal, nullptr);
  }
  for (const auto& [resource, most] : options.limits) {
    rlimit limit{};
    // Only lowers our limits.
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) continue;
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_cur < limit.rlim_max ? limit.rlim_cur : limit.rlim_max;
    ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  }
  // Two steps, so that a target number that is itself a source is not overwritten too early.
  constexpr int kParked = 200;
  int step = 0;
  for (const auto& [ours, theirs] : options.descriptors) ::dup2(ours, kParked + step++);
  step = 0;
  for (const auto& [ours, theirs] : options.descriptors) {
    ::dup2(kParked + step, theirs);
    ::close(kParked + step++);
  }
  if (options.working_folder.empty() || ::chdir(options.working_folder.c_str()) == 0) {
    environ = environment;
    ::execvp(arguments[0], arguments);
  }
  const int error = errno;
  (void)!::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const Options& options) : own_group_(options.own_process_group) {
  std::vector<std::string> argument_strings = options.arguments;
  std::vector<std::string> environment_strings = merged_environment(options.environment);
  const std::vector<char*> arguments = pointers(argument_strings);
  std::vector<char*> environment = pointers(environment_strings);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) {
    throw Error(ExitStatus::failed, fmt::format("cannot make a pipe: {}", describe_errno(errno)),
                "Close some files or programs and try again.");
  }
  if (options.dies_with_us) guard_ = start_guard();
  id_ = ::fork();
  if (id_ == 0)
    become(options, std::max(guard_, 0), arguments.data(), environment.data(), report[1]);
  const int fork_error = errno;
  if (id_ > 0 && own_group_) groups.add(group());
  ::close(report[1]);
  int error = id_ < 0 ? fork_error : 0;
  // Reads to the end even if a signal arrives: until the program runs, its process group does not
  // exist.
  ssize_t received = id_ < 0 ? 0 : -1;
  while (received < 0) {
    received = ::read(report[0], &error, sizeof error);
    if (received < 0 && errno != EINTR) break;
  }
  ::close(report[0]);
  if (id_ > 0 && received == static_cast<ssize_t>(sizeof error)) {
    groups.remove(group());
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
  }
  if (id_ < 0) {
    reap_guard();
    throw Error(
        ExitStatus::failed,
        fmt::format("cannot start {}: {}", options.arguments.front(), describe_errno(error)),
        "Check that the program exists and that you may run it.");
  }
}

ChildProcess::~ChildProcess() {
  if (id_ < 0 || status_) return;
  send(SIGKILL);
  groups.remove(group());
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
  reap_guard();
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : guard_(std::exchange(other.guard_, -1)),
      id_(std::exchange(other.id_, -1)),
      own_group_(other.own_group_),
      status_(other.status_) {}

void ChildProcess::reap_guard() noexcept {
  if (guard_ <= 0) return;
  ::kill(guard_, SIGKILL);
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
  guard_ = -1;
}

/// Returns true once the program has ended, and stores its status then. Without WNOHANG in `flags`
/// it waits, and false means that a signal arrived.
bool ChildProcess::ended(int flags) {
  if (status_) return true;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT | flags) != 0) {
    if (errno == EINTR) return false;
    throw Error(ExitStatus::failed, fmt::format("waiting failed: {}", describe_errno(errno)),
                "Try again.");
  }
  if (info.si_pid == 0) return false;
  // The group's number can't be reused as long as the program has not been waited for.
  if (own_group_) send(SIGKILL);
  groups.remove(group());
  int status = 0;
  while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) {
  }
  status_ = status;
  reap_guard();
  return true;
}

int ChildProcess::wait() {
  while (!status_)
    if (!ended(0)) InterruptGuard::throw_if_interrupted();
  return *status_;
}

std::optional<int> ChildProcess::wait_for(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!ended(WNOHANG) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return status_;
}

void ChildProcess::send(int signal) const noexcept {
  if (id_ <= 0 || status_) return;
  ::kill(own_group_ ? -group() : id_, signal);
}

pid_t ChildProcess::group() const noexcept {
  return guard_ > 0 ? guard_ : id_;
}

void ChildProcess::kill_groups() noexcept {
  groups.for_each([](pid_t group) { ::kill(-group, SIGKILL); });
}

std::string shell_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(word);
  std::string result = "'";
  for (const char character : word)
    if (character == '\'')
      result += "'\\''";
    else
      result += character;
  return result + "'";
}

std::string describe_wait_status(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return fmt::format("killed by SIG{} ({})", ::sigabbrev_np(signal), ::strsignal(signal));
}

}  // namespace optrace
