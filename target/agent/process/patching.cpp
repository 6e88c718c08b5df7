// Built with -mgeneral-regs-only, because return_probes.cpp calls it in the middle of a function.

#include "target/agent/process/patching.h"

#include <cstdint>

#include "target/agent/process/system_calls.h"

namespace optrace::agent {
namespace {

std::uint32_t patching_thread = 0;  // From gettid(); accessed atomically.

std::uint32_t this_thread() {
  return static_cast<std::uint32_t>(system_call(SYS_gettid, 0));
}

void sleep_briefly() {
  constexpr struct {
    std::int64_t seconds, nanoseconds;
  } kPause{0, 100'000};
  system_call(SYS_nanosleep, address_of(&kPause));
}

}  // namespace

bool begin_patching() {
  const std::uint32_t self = this_thread();
  for (std::uint32_t nobody = 0; !__atomic_compare_exchange_n(
           &patching_thread, &nobody, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
       nobody = 0) {
    if (nobody == self) return false;
    sleep_briefly();
  }
  return true;
}

bool try_patching() {
  std::uint32_t nobody = 0;
  return __atomic_compare_exchange_n(&patching_thread, &nobody, this_thread(), false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

bool try_patching_for_long() {
  constexpr int kTries = 10'000;
  for (int i = 0; i < kTries; ++i) {
    if (try_patching()) return true;
    sleep_briefly();
  }
  return false;
}

void end_patching() {
  __atomic_store_n(&patching_thread, 0, __ATOMIC_RELEASE);
}

}  // namespace optrace::agent
