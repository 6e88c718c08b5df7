// Built with -mgeneral-regs-only, because return_probes.cpp calls it in the middle of a function.

#include "tracer/in_process/agent/process/patching.h"

#include <cstdint>

#include "tracer/in_process/agent/process/system_calls.h"

namespace optrace::agent {

namespace {

std::uint32_t patching_thread = 0;  // From gettid(); accessed atomically.

std::uint32_t this_thread() {
  return static_cast<std::uint32_t>(system_call(SYS_gettid, 0));
}

struct Pause {
  std::int64_t seconds, nanoseconds;
};

}  // namespace

void begin_patching() {
  constexpr Pause kPause{0, 100'000};
  const std::uint32_t self = this_thread();
  for (std::uint32_t nobody = 0; !__atomic_compare_exchange_n(
           &patching_thread, &nobody, self, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
       nobody = 0) {
    if (nobody == self) {
      return;
    }
    system_call(SYS_nanosleep, address_of(&kPause));
  }
}

bool try_patching() {
  std::uint32_t nobody = 0;
  return __atomic_compare_exchange_n(&patching_thread, &nobody, this_thread(), false,
                                     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void end_patching() {
  __atomic_store_n(&patching_thread, 0, __ATOMIC_RELEASE);
}

}  // namespace optrace::agent
