#include "tracer/attach/stopped_thread.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <tuple>
#include <utility>

#include <catch2/catch.hpp>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/error.h"

using namespace optrace;

namespace {

/// The exit status of a child that was not disturbed.
constexpr int kUndisturbed = 7;
/// The time for a child to reach a point at which it can be stopped.
constexpr std::chrono::milliseconds kTimeout{500};

/// A forked child that exits with the result of `body`.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) : id_(::fork()) {
    if (id_ == 0) ::_exit(body());
    const timespec pause{0, 100'000'000};
    ::nanosleep(&pause, nullptr);
  }
  ~Child() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  CallingCode code() const { return find_calling_code(RunningProcess(id_)); }

  /// Waits for the child. Returns its exit status, or minus the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(id_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t id_;
};

/// Sleeps once, for half a second, and checks that nothing interrupts the sleep.
int sleep_once() {
  const timespec pause{0, 500'000'000};
  return ::nanosleep(&pause, nullptr) == 0 ? kUndisturbed : errno;
}

/// Computes in the vector registers for some seconds.
int compute() {
  timespec start{}, now{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  std::array<double, 8> values{1, 2, 3, 4, 5, 6, 7, 8};
  const std::array<double, 8> expected = values;
  do {
    for (int i = 0; i < 100'000; ++i)
      for (double& value : values) value = (value * 3.0 + 1.0 - 1.0) / 3.0;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 3);
  return values == expected ? kUndisturbed : 1;
}

volatile int called_with = 0;  // Set in the child.

int wait_for_call() {
  for (int i = 0; i < 400 && called_with == 0; ++i) {
    const timespec pause{0, 50'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return called_with == 5 ? kUndisturbed : 1;
}

extern "C" void note_call(int value) {
  called_with = value;
}

extern "C" void take_long() {
  const timespec pause{0, 300'000'000};
  ::nanosleep(&pause, nullptr);
  called_with = 5;
}

std::uint64_t address_of(void (*function)(int)) {
  return reinterpret_cast<std::uint64_t>(function);
}

}  // namespace

TEST_CASE("a stopped thread makes system calls, and its own goes on") {
  Child child(sleep_once);
  {
    StoppedThread thread(child.id(), child.code(), kTimeout);
    CHECK(thread.system_call(SYS_getpid, {}) == child.id());
    CHECK(thread.system_call(SYS_close, {100'000}) == -EBADF);
    std::array<int, 2> ends{};
    const std::uint64_t place = thread.scratch();
    CHECK(thread.system_call(SYS_pipe, {place}) == 0);
    const iovec to{ends.data(), sizeof ends};
    const iovec from{reinterpret_cast<void*>(place), sizeof ends};
    CHECK(::process_vm_readv(child.id(), &to, 1, &from, 1, 0) == sizeof ends);
    CHECK(ends[1] > ends[0]);
  }
  CHECK(child.wait() == kUndisturbed);
}

TEST_CASE("a stopped thread calls a function") {
  Child child(wait_for_call);
  {
    StoppedThread thread(child.id(), child.code(), kTimeout);
    thread.call(address_of(note_call), {5});
  }
  CHECK(child.wait() == kUndisturbed);
}

TEST_CASE("a thread that computes can be stopped, again and again, and computes the same") {
  Child child(compute);
  const CallingCode code = child.code();
  for (int i = 0; i < 20; ++i) {
    StoppedThread thread(child.id(), code, kTimeout);
    CHECK(thread.system_call(SYS_gettid, {}) == child.id());
  }
  CHECK(child.wait() == kUndisturbed);
}

TEST_CASE("signals that come meanwhile come later") {
  static volatile int ticks = 0;
  Child child([] {
    struct sigaction action{};
    action.sa_handler = [](int) { ticks = ticks + 1; };
    ::sigaction(SIGUSR1, &action, nullptr);
    constexpr int kMin = 5;
    for (int i = 0; i < 1000 && ticks < kMin; ++i) {
      const timespec pause{0, 5'000'000};
      ::nanosleep(&pause, nullptr);
    }
    return ticks < kMin ? 1 : kUndisturbed;
  });
  const CallingCode code = child.code();
  for (int i = 0; i < 5; ++i) {
    {
      StoppedThread thread(child.id(), code, kTimeout);
      ::kill(child.id(), SIGUSR1);
      CHECK(thread.system_call(SYS_getpid, {}) == child.id());
    }
    const timespec pause{0, 20'000'000};  // Pending signals of one number are merged.
    ::nanosleep(&pause, nullptr);
  }
  CHECK(child.wait() == kUndisturbed);
}

TEST_CASE("a thread finds back by itself when the one that stopped it is killed") {
  Child child(wait_for_call);
  Child tracer([&child] {
    StoppedThread thread(child.id(), child.code(), kTimeout);
    thread.call(reinterpret_cast<std::uint64_t>(&take_long), {});
    return 0;
  });
  // The child is now in the middle of the call.
  ::kill(tracer.id(), SIGKILL);
  CHECK(tracer.wait() == -SIGKILL);
  CHECK(child.wait() == kUndisturbed);
}

TEST_CASE("a thread goes on waiting for as long as it wanted, even if the tracer is killed") {
  struct Wait {
    const char* name;
    int (*call)();
  };
  static constexpr timespec kTime{2, 0};
  const std::array waits = {
      Wait{"nanosleep", [] { return ::nanosleep(&kTime, nullptr); }},
      Wait{"poll", [] { return ::poll(nullptr, 0, static_cast<int>(kTime.tv_sec * 1000)); }},
      Wait{"futex",
           [] {
             int word = 0;
             ::syscall(SYS_futex, &word, FUTEX_WAIT, 0, &kTime, nullptr, 0);
             return errno == ETIMEDOUT ? 0 : -1;
           }},
      Wait{"epoll_wait",
           [] {
             const int timer = ::timerfd_create(CLOCK_MONOTONIC, 0), group = ::epoll_create1(0);
             const itimerspec once{{}, kTime};
             epoll_event event{.events = EPOLLIN, .data = {}};
             ::timerfd_settime(timer, 0, &once, nullptr);
             ::epoll_ctl(group, EPOLL_CTL_ADD, timer, &event);
             return ::epoll_wait(group, &event, 1, -1) - 1;
           }},
  };
  std::deque<std::pair<const char*, Child>> children;
  for (const bool killed : {false, true}) {
    for (const Wait& wait : waits) {
      Child& child = children
                         .emplace_back(std::piecewise_construct, std::forward_as_tuple(wait.name),
                                       std::forward_as_tuple([&wait] {
                                         return wait.call() == 0 ? kUndisturbed : errno;
                                       }))
                         .second;
      Child tracer([&child, killed] {
        StoppedThread thread(child.id(), child.code(), kTimeout);
        thread.system_call(SYS_getpid, {});
        if (killed) ::kill(::getpid(), SIGKILL);
        return kUndisturbed;
      });
      CHECK(tracer.wait() == (killed ? -SIGKILL : kUndisturbed));
      std::uint64_t spare = 1;
      const iovec to{&spare, sizeof spare};
      const iovec from{reinterpret_cast<void*>(child.code().spare), sizeof spare};
      CHECK(::process_vm_readv(child.id(), &to, 1, &from, 1, 0) == sizeof spare);
      if (!killed) CHECK(spare == 0);
    }
  }
  for (auto& [name, child] : children) {
    CAPTURE(name);
    CHECK(child.wait() == kUndisturbed);
  }
}

TEST_CASE("a call that fails or does not return leaves the thread as it was") {
  SECTION("it fails") {
    Child child(sleep_once);
    {
      StoppedThread thread(child.id(), child.code(), kTimeout);
      CHECK_THROWS_AS(thread.call(16, {}), Error);
    }
    CHECK(child.wait() == kUndisturbed);
  }
  SECTION("it does not return") {
    Child child([] {
      const timespec pause{2, 0};
      return ::nanosleep(&pause, nullptr) == 0 ? kUndisturbed : errno;
    });
    {
      StoppedThread thread(child.id(), child.code(), kTimeout);
      CHECK_THROWS_AS(thread.call(reinterpret_cast<std::uint64_t>(&::pause), {}), Error);
    }
    CHECK(child.wait() == kUndisturbed);
  }
}

TEST_CASE("a thread that can't be stopped at once is stopped later, and not left behind") {
  // In a clone with CLONE_VFORK, the kernel stops no thread until the new process ends.
  Child child([] {
    const timespec pause{0, 700'000'000};
    const long inner = ::syscall(SYS_clone, CLONE_VFORK | SIGCHLD, nullptr, nullptr, nullptr, 0);
    if (inner == 0) {
      ::nanosleep(&pause, nullptr);
      ::_exit(0);
    }
    ::waitpid(static_cast<pid_t>(inner), nullptr, 0);
    return sleep_once();
  });
  {
    StoppedThread thread(child.id(), child.code(), kTimeout * 4);
    CHECK(thread.system_call(SYS_getpid, {}) == child.id());
  }
  CHECK(child.wait() == kUndisturbed);
}

TEST_CASE("what can't be stopped says why") {
  using Catch::Contains;
  const auto refusal = [](pid_t process, const CallingCode& code) -> std::string {
    try {
      const StoppedThread thread(process, code, kTimeout);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  Child child(sleep_once);
  const CallingCode code = child.code();
  ::kill(child.id(), SIGSTOP);
  const timespec pause{0, 50'000'000};
  ::nanosleep(&pause, nullptr);
  CHECK_THAT(refusal(child.id(), code), Contains("is stopped"));
  const pid_t gone = child.id();
  ::kill(gone, SIGKILL);
  child.wait();
  CHECK_THAT(refusal(gone, code), Contains("ended"));
}
