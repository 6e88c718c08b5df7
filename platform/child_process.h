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
/// process group and waits for it, and what a program with a group of its own leaves running there
/// is killed when it has ended, so nothing outlives the command that started it.
class ChildProcess {
 public:
  struct Options {
    std::vector<std::string>
        arguments{};  ///< argv; [0] is looked up in PATH unless it has a slash.
    std::vector<std::pair<std::string, std::string>> environment{};  ///< Set on top of our own.
    std::vector<std::pair<int, int>>
        descriptors{};              ///< (ours, the child's number), kept open in it.
    std::string working_folder{};   ///< Empty: ours.
    bool own_process_group = true;  ///< False: it gets the terminal's Ctrl-C as we do.
    std::vector<std::pair<int, rlim_t>> limits{};  ///< (RLIMIT_CPU, seconds) and the like.
    bool keeps_ignored = false;  ///< What we were told to ignore (nohup), it ignores as well.
  };

  /// Throws Error(failed) when the program can't be started, with the reason.
  explicit ChildProcess(const Options& options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const noexcept { return id_; }

  /// Waits for the end and returns the status as waitpid gives it. EINTR goes on waiting unless
  /// InterruptGuard saw a signal, then it throws Error(interrupted).
  int wait();

  /// The status if the program ended within `limit`, else nothing.
  std::optional<int> wait_for(std::chrono::milliseconds limit);

  /// Sends `signal` to the program (its whole group when it has its own).
  void send(int signal) const noexcept;

 private:
  bool ended(int flags);

  pid_t id_ = -1;
  bool own_group_ = false;
  std::optional<int> status_;
};

/// A word of a command line as a shell wants it typed.
std::string shell_word(std::string_view word);

/// "exit status 1", "killed by SIGSEGV (Segmentation fault)" for a waitpid status.
std::string describe_wait_status(int status);

}  // namespace optrace
