#include "target/agent/recording.h"

#include <cstring>
#include <ctime>

#include <sys/syscall.h>
#include <unistd.h>

#include "target/agent/callers/callers.h"
#include "target/agent/callers/initial_stack.h"
#include "target/agent/placed_plans.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/python/python_events.h"
#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/module_sections.h"
#include "target/agent/recording/op_record_store.h"

namespace optrace::agent {
namespace {

recording::InitialFrame initial_frames[kMaxInitialFrames];

// The time-stamp counter and CLOCK_MONOTONIC.
struct Clocks {
  std::uint64_t ticks;
  std::uint64_t nanoseconds;
};

Clocks read_clocks() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {ticks(), static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                       static_cast<std::uint64_t>(now.tv_nsec)};
}

void put_initial_stack(Region& region, std::uint32_t round) {
  const std::uint32_t count = take_initial_stack(initial_frames, kMaxInitialFrames);
  const recording::InitialStack stack{static_cast<std::uint64_t>(syscall(SYS_gettid)), count};
  const std::uint64_t frames_size = count * sizeof(recording::InitialFrame);
  const SignalsBlocked guard;
  void* const section = begin_section(region, sizeof(stack) + frames_size);
  if (section != nullptr) {
    std::memcpy(section, &stack, sizeof(stack));
    std::memcpy(static_cast<char*>(section) + sizeof(stack), initial_frames, frames_size);
    complete_section(section, recording::SectionKind::initial_stack, round);
  }
}

}  // namespace

void begin_recording(Region& region) {
  clear_callers();
  const std::uint32_t round = next_round();
  describe_placed_plans(region);
  put_initial_stack(region, round);
  put_op_records(region);
  put_modules(region);
  recording::RegionHeader& header = *region.header;
  if (has_generated_library()) __atomic_add_fetch(&header.modules_reported, 1, __ATOMIC_RELEASE);
  const Clocks start = read_clocks();
  __atomic_store_n(&header.start_ticks, start.ticks, __ATOMIC_RELAXED);
  __atomic_store_n(&header.start_nanoseconds, start.nanoseconds, __ATOMIC_RELAXED);
  __atomic_store_n(&header.stop_ticks, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header.stop_nanoseconds, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header.python_missing, python_events_failed() ? recording::kNoPythonEvents : 0,
                   __ATOMIC_RELAXED);
  __atomic_store_n(&region.lost, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header.recording, 1, __ATOMIC_RELEASE);
  begin_round();
}

void end_recording(Region& region) {
  end_round();
  recording::RegionHeader& header = *region.header;
  const Clocks stop = read_clocks();
  __atomic_store_n(&header.stop_nanoseconds, stop.nanoseconds, __ATOMIC_RELAXED);
  __atomic_store_n(&header.stop_ticks, stop.ticks, __ATOMIC_RELEASE);
  put_modules(region);
  __atomic_store_n(&header.recording, 0, __ATOMIC_RELEASE);
}

}  // namespace optrace::agent
