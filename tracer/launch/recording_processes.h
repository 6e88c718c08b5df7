#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tracer/collect/collector.h"
#include "tracer/launch/process_watch.h"
#include "tracer/trace/trace.h"

namespace optrace {

struct RecordingProcess {
  RecordingProcess(pid_t process, std::optional<std::uint64_t> its_rank)
      : id(process), rank(its_rank), watch(process) {}

  pid_t id;
  std::optional<std::uint64_t> rank;
  ProcessWatch watch;
  /// Null until the process shares its memory, and if only compilations are recorded.
  std::unique_ptr<Collector> collector;
  std::optional<std::uint64_t> steps;  ///< The steps that it has completed, once it says so.
  TraceMeta meta;
  std::exception_ptr failure;        ///< Why the background thread can't read its events.
  std::atomic<bool> failed = false;  ///< True once `failure` is set.

  CollectorProgress progress() const {
    return collector ? collector->progress() : CollectorProgress{};
  }

  /// Reads everything that the process has recorded. Returns the ops.
  std::vector<std::string> finish();

  /// Returns the trace. Call once, after finish().
  Trace take();
};

/// The recording processes of a family. Only the family's thread adds and removes them.
struct RecordingProcesses {
  std::mutex mutex;  ///< Guards the collectors, which the background thread uses, too.
  std::vector<std::unique_ptr<RecordingProcess>> list;
};

/// Reads events until the stop, while a processor has nothing else to do, so that the program has
/// the processors as long as there is room for its events. Its threads never wait for this one.
/// Calls `wake` when a process waits for its reader, or its events can't be read.
void read_in_background(RecordingProcesses& processes, const std::function<void()>& wake,
                        const std::stop_token& stop);

}  // namespace optrace
