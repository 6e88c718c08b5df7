#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/types.h>

namespace optrace {

/// A program started without a shell. Destroying the object while the program runs kills its whole
/// process group and waits for it. When a program with a group of its own has ended, the processes
/// that it left in the group are killed. So nothing outlives the command that started it.
class ChildProcess {
 public:
  struct Options {
    /// argv; [0] is looked up in PATH unless it contains a slash.
    std::vector<std::string> arguments{};
    /// Changes to our own environment.
    std::vector<std::pair<std::string, std::string>> environment{};
    /// (our descriptor, the child's number), kept open in the child.
    std::vector<std::pair<int, int>> descriptors{};
    std::string working_folder{};   ///< Empty: our own.
    bool own_process_group = true;  ///< False: it receives the terminal's Ctrl-C as we do.
    /// Its own process group is killed, too, when the thread that started it ends in any way, such
    /// as by a SIGKILL for this process.
    bool dies_with_us = false;
    std::vector<std::pair<int, rlim_t>> limits{};  ///< Such as (RLIMIT_CPU, seconds).
    bool keeps_ignored = false;  ///< It ignores the signals that we were told to ignore (nohup).
  };

  /// Throws Error(failed) with the reason if the program can't be started.
  explicit ChildProcess(const Options& options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const noexcept { return id_; }

  /// Waits for the end and returns the status from waitpid. After EINTR it continues to wait, or
  /// throws Error(interrupted) if InterruptGuard has seen a signal.
  int wait();

  /// Returns the status if the program ends within `limit`, else nullopt.
  std::optional<int> wait_for(std::chrono::milliseconds limit);

  /// Kills all programs with a process group of their own, for a process that ends at once.
  /// Async-signal-safe.
  static void kill_groups() noexcept;

  /// Sends `signal` to the program (its whole group when it has its own).
  void send(int signal) const noexcept;

 private:
  bool ended(int flags);
  pid_t group() const noexcept;
  void reap_guard() noexcept;

  pid_t guard_ = -1;  ///< The leader of its group if it dies with us, else negative.
  pid_t id_ = -1;
  bool own_group_ = false;
  std::optional<int> status_;
};

/// Returns a word of a command line, quoted for a shell if necessary.
std::string shell_word(std::string_view word);

/// Describes a waitpid status: "exit status 1", "killed by SIGSEGV (Segmentation fault)".
std::string describe_wait_status(int status);

}  // namespace optrace
