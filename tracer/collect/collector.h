#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tracer/collect/memory_budget.h"
#include "tracer/collect/op_selection.h"
#include "tracer/probes/probe_session.h"
#include "tracer/trace/trace.h"

namespace optrace {

struct CollectorOptions {
  TraceSelection selection;
  bool timeline = false;  ///< Also keep every event while the budget has room.
  /// The recording is that of one call: also functions of runtime libraries have paths of their own
  /// (PathFunctions::is_uncounted), and the trace has no duration.
  bool single_call = false;
  /// Limits the paths and events of all processes together. If null, each process has a budget of
  /// the default size.
  std::shared_ptr<MemoryBudget> memory{};
};

/// Values for a live display.
struct CollectorProgress {
  std::uint64_t events = 0;
  std::uint64_t ops = 0;  ///< Outermost selected op calls.
  std::size_t paths = 0;
  std::uint64_t lost = 0;
};

/// An op and its number of calls.
struct OpCount {
  std::string name;  ///< `aten::add.Tensor`, as in op records.
  std::uint64_t calls = 0;
};

/// Reads one process's shared region (recording_format.h): empties it while the program runs, and
/// counts paths. The region is untrusted; impossible contents throw Error(failed). Not safe for use
/// by several threads at once.
///
///   Collector collector(descriptor, session, options);   // once the agent shares its region
///   while (the program runs) { collector.drain(); wait for kPause, or for the program; }
///   collector.finish();                                   // the program stopped, ended, or died
///   write_trace(collector.take(meta), path);
class Collector {
 public:
  /// How long to wait before the next drain() when the last one has read everything. Reading costs
  /// the program more, the closer it follows the program's writing: the two then take turns with
  /// the same cache lines, and each wake-up takes a processor from the program. The region has room
  /// for many times the events of this time.
  static constexpr std::chrono::milliseconds kPause{4};
  /// The same while the process waits for its reader, as one does that loads modules.
  static constexpr std::chrono::milliseconds kAwaitedPause{1};
  /// A number of events that takes a fraction of a millisecond to read, if they are known.
  static constexpr std::uint64_t kBatch = 8192;

  /// Maps the region; the descriptor may be closed afterwards. `session` has made the plans placed
  /// in the process, and must outlive the collector.
  Collector(int region, ProbeSession& session, CollectorOptions options);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  /// Reads the available events, at most about `most`. Returns their number. Asks the agent to stop
  /// once the selection is complete.
  std::uint64_t drain(std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

  /// Signals to the process that its reader is alive. Safe beside the other functions.
  void send_heartbeat();

  /// Returns true if a thread of the process waits until events are read, or until plans are made
  /// for modules that it has loaded. Safe beside the other functions.
  bool is_awaited() const;

  /// Reads the remaining events. Events written later are not read.
  void finish();

  CollectorProgress progress() const;

  /// The ops that occurred, `aten::add.Tensor`, as in op records.
  std::vector<std::string> ops() const;

  /// The number of calls of each op so far, regardless of the selection.
  std::vector<OpCount> op_counts() const;

  /// Returns the trace. Call once, after finish(). `meta` as in Trace; warnings and probes are
  /// added.
  Trace take(TraceMeta meta);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace
