#include "target/agent/process/safe_point.h"

#include <atomic>
#include <cerrno>
#include <ctime>

#include <dlfcn.h>

namespace optrace::agent {
namespace {

enum State : std::uint64_t { kIdle, kWaiting, kRunning, kDone };

// Number of the call, times four, plus its State. The number lets run_requested() ignore a call
// that was given up before the interpreter reached it.
std::atomic<std::uint64_t> state = kIdle;
std::atomic<int (*)()> requested = nullptr;
std::atomic<int> result = 0;

std::uint64_t number_of(std::uint64_t value) {
  return value & ~std::uint64_t{3};
}

int run_requested(void* number) {
  std::uint64_t expected = reinterpret_cast<std::uint64_t>(number) | kWaiting;
  const std::uint64_t running = number_of(expected) | kRunning;
  if (state.compare_exchange_strong(expected, running)) {
    result = requested.load()();
    state = number_of(running) | kDone;
  }
  return 0;
}

}  // namespace

int call_at_safe_point(int (*call)(), std::uint64_t milliseconds) {
  using AddPendingCall = int (*)(int (*function)(void*), void* argument);
  const auto add = reinterpret_cast<AddPendingCall>(dlsym(RTLD_DEFAULT, "Py_AddPendingCall"));
  if (add == nullptr) return -ENOSYS;
  const std::uint64_t number = number_of(state) + 4;
  requested = call;
  state = number | kWaiting;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (add(run_requested, reinterpret_cast<void*>(number)) != 0) {
    state = number | kIdle;
    return -EAGAIN;
  }
  constexpr long kPauseNanoseconds = 200'000;
  constexpr std::uint64_t kPausesInMillisecond = 1'000'000 / kPauseNanoseconds;
  for (std::uint64_t i = 0; state != (number | kDone); ++i) {
    std::uint64_t expected = number | kWaiting;
    if (i >= milliseconds * kPausesInMillisecond &&
        state.compare_exchange_strong(expected, number | kIdle)) {
      return -ETIMEDOUT;
    }
    const timespec pause{0, kPauseNanoseconds};
    nanosleep(&pause, nullptr);
  }
  return result;
}

}  // namespace optrace::agent
