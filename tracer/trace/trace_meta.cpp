#include "tracer/trace/trace_meta.h"

#include <ctime>

namespace optrace {

void add_processor_time(TraceMeta& meta) {
  constexpr std::uint64_t kNanosecondsPerTick = 1'000'000'000 / CLOCKS_PER_SEC;
  const std::clock_t used = std::clock();
  if (used > 0 && meta.recording)
    meta.recording->command_cpu_ns = static_cast<std::uint64_t>(used) * kNanosecondsPerTick;
}

}  // namespace optrace
