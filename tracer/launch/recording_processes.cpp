#include "tracer/launch/recording_processes.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <thread>
#include <utility>

#include <sched.h>

namespace optrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The background thread reads less often while a delay shows that others want the processors.
constexpr milliseconds kTolerableDelay{1};
constexpr milliseconds kLongestPause{64};

// Returns for how long this thread has had a processor.
Clock::duration thread_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Reads a batch of each process. Returns true if there are more events.
bool read_batches(RecordingProcesses& processes, const std::function<void()>& wake) {
  bool more = false;
  for (std::size_t i = 0;; ++i) {
    // Another thread may wait for the end of a batch.
    const std::lock_guard lock(processes.mutex);
    if (i >= processes.list.size()) return more;
    RecordingProcess& process = *processes.list[i];
    if (process.failed || !process.collector) continue;
    // Others than the reader wait for what takes long, and should not wait for this thread.
    if (process.collector->is_awaited()) {
      wake();
      continue;
    }
    try {
      more = process.collector->drain(Collector::kBatch) >= Collector::kBatch || more;
    } catch (...) {
      process.failure = std::current_exception();
      process.failed = true;
      wake();
    }
  }
}

}  // namespace

std::vector<std::string> RecordingProcess::finish() {
  if (!collector) return {};
  collector->finish();
  return collector->ops();
}

Trace RecordingProcess::take() {
  if (collector) return collector->take(std::move(meta));
  Trace trace;
  trace.meta = std::move(meta);
  return trace;
}

// The thread has no low priority: beside busy programs, it would get no processor for seconds while
// it holds the mutex, which the family's thread needs.
void read_in_background(RecordingProcesses& processes, const std::function<void()>& wake,
                        const std::stop_token& stop) {
  const sched_param no_priority{};
  ::sched_setscheduler(0, SCHED_BATCH, &no_priority);  // Interrupts nobody when it wakes up.
  milliseconds pause = Collector::kPause;
  while (!stop.stop_requested()) {
    const Clock::duration ran_before = thread_time();
    const Clock::time_point begin = Clock::now();
    const bool more = read_batches(processes, wake);
    const bool pausing = !more || pause > Collector::kPause;
    if (pausing) std::this_thread::sleep_for(pause);
    const Clock::duration delay =
        Clock::now() - begin - (thread_time() - ran_before) - (pausing ? pause : milliseconds(0));
    pause = delay > kTolerableDelay ? std::min(2 * pause, kLongestPause) : Collector::kPause;
  }
}

}  // namespace optrace
