#pragma once

#include <cstdint>
#include <set>

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

/// Writes Chrome's trace event JSON, which Perfetto and chrome://tracing open. Each report is a
/// process, with a track for each thread and each stream. docs/perfetto-format.md describes the
/// events. Times are those of torch.profiler's own traces, so both can be opened side by side.
class PerfettoWriter {
 public:
  /// The sink must outlive the writer.
  explicit PerfettoWriter(OutputSink& sink) : sink_(sink) {}

  /// Adds a process. Its report must have a timeline.
  void add(const Report& report);

  /// Writes the end. Call once, after all processes.
  void finish();

 private:
  void begin(std::uint64_t unix_ns);

  OutputSink& sink_;
  std::uint64_t base_ = 0;  // Unix time in nanoseconds from which times are counted.
  bool begun_ = false;
  std::set<std::uint64_t> processes_;
  std::uint64_t arrows_ = 0;  // Written so far.
};

}  // namespace optrace
