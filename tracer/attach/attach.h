#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "tracer/calltree/collector.h"
#include "tracer/launch/tracing_orders.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A running process to trace, and until when.
struct AttachRequest {
  pid_t process = 0;
  CollectorOptions collector;  ///< selection.count: so many ops, then no more.
  std::optional<std::chrono::duration<double>> duration;
  std::string until_op;  ///< A pattern: until an op of such a name was called; empty: no matter.
  /// How long the interpreter may take to get to where it can be interrupted.
  std::chrono::milliseconds timeout = std::chrono::seconds(10);
  std::uint64_t target_bytes = kTargetBytes;  ///< What tracing may take in the process.
};

/// What is known while it is being traced.
struct AttachProgress {
  std::chrono::duration<double> time{};  ///< Since recording began.
  CollectorProgress counted;
  std::vector<OpCount> ops;
};

struct AttachResult {
  Trace trace;
  std::string ended;  ///< Why the process itself ended it, a sentence; empty: it goes on.
};

/// Traces a running process until what `request` says has happened, or a signal came (an
/// InterruptGuard must live), then leaves it as it was. `progress` is called once a second, and
/// with `done` in the end.
/// Throws Error(usage or failed) for a process that can't be traced, in which case it is as it was.
using AttachListener = std::function<void(const AttachProgress&, bool done)>;
AttachResult attach(const AttachRequest& request, const AttachListener& progress);

}  // namespace optrace
