#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "platform/exported.h"
#include "target/build/built_for_torch.h"
#include "tracer/collect/collector.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The torch of this process.
struct CurrentTorch {
  std::filesystem::path folder;       ///< site-packages/torch
  std::filesystem::path interpreter;  ///< The ELF file that contains the Python interpreter.
  bool cuda = false;                  ///< True if there is a GPU that it might use.
};

struct InProcessOptions {
  CollectorOptions collector;
  bool op_records = true;
  bool python_frames = true;
  bool outer_frames = true;  ///< Whether to record the Python functions that already run.
  std::uint64_t buffer_bytes = std::uint64_t{32} << 20;
};

/// Traces its own process: the agent records, and a thread of the tracer counts. That thread never
/// runs Python, never enters a function that has a probe, and takes no signals. There is one object
/// per process. It is never destroyed, since threads may be in probes until the process ends.
class OPTRACE_EXPORTED InProcessTracer {
 public:
  static InProcessTracer& instance();

  /// Returns true while this process is recording.
  bool active() const;

  /// Prepares the first recording: makes plans for this torch's libraries and builds the op-record
  /// agent (ten seconds with a compiler, once per torch and user). Later calls do nothing. May be
  /// called on any thread, without the GIL. Throws Error, and what `progress` throws.
  void prepare(const CurrentTorch& torch, const InProcessOptions& options,
               const BuildProgress& progress);

  /// Places the probes and starts recording. The caller must hold the GIL and have called
  /// prepare(). Throws Error(usage) if a recording is active.
  void start(const InProcessOptions& options);

  /// Stops recording, on the thread that started it and with the GIL. Does not wait for the reader
  /// thread to finish.
  void stop();

  /// Reads the remaining events. To be called after stop(), preferably without the GIL. Throws
  /// Error(failed) if the recorded data can't be read.
  void finish();

  /// Returns the ops that occurred. To be called after finish() and before take().
  std::vector<std::string> ops() const;

  /// Returns the trace and removes the probes. `meta` as in Trace.
  Trace take(TraceMeta meta);

  /// Discards the recording and removes the probes. Does nothing if there is no recording.
  void abandon() noexcept;

  /// Same as abandon(), at the end of the process. Also removes the temporary files.
  void close() noexcept;

  /// Called around a fork. The child inherits no threads, so before_fork() ends the reader thread.
  /// The child discards the recording, which belongs to the parent, and removes the probes.
  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child() noexcept;

 private:
  InProcessTracer();
  struct State;
  struct Round;
  State* state_;
};

}  // namespace optrace
