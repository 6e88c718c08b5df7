#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "target/build/built_for_torch.h"
#include "tracer/collect/collector.h"
#include "tracer/connection/tracing_orders.h"
#include "tracer/probes/return_sites.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A running process to trace, and the conditions that end the trace. `collector.selection.count`
/// ends it after that many ops.
struct AttachRequest : RecordingRequest {
  pid_t process = 0;
  std::optional<std::chrono::duration<double>> duration;
  /// A pattern: the trace ends once an op with a matching name was called. Empty: no such
  /// condition.
  std::string until_op;
  /// Maximum time until the interpreter can be interrupted.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  /// Returns the functions whose returned values are recorded, for a folder with torch. Null: none.
  std::function<KnownResults(const std::filesystem::path&)> results;
};

/// Progress while the process is traced.
struct AttachProgress {
  std::chrono::duration<double> time{};  ///< Since recording began.
  CollectorProgress counted;
  std::vector<OpCount> ops;
};

struct AttachResult {
  Trace trace;
  /// A sentence if the process itself ended the trace; empty if it continues to run.
  std::string ended;
};

/// Called once a second, and at the end with `done`.
using AttachListener = std::function<void(const AttachProgress&, bool done)>;

/// Traces a running process until a condition of `request` holds or a signal arrives (an
/// InterruptGuard must live), then leaves the process as it was before. What has to be compiled is
/// compiled before the process is touched, and told to `building`. Throws Error(usage or failed)
/// for a process that can't be traced, which is then left as it was.
AttachResult attach(const AttachRequest& request, const BuildProgress& building,
                    const AttachListener& progress);

}  // namespace optrace
