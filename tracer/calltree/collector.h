#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tracer/calltree/path_counter.h"
#include "tracer/probes/probe_session.h"
#include "tracer/trace/trace.h"

namespace optrace {

struct CollectorOptions {
  TraceSelection selection;
  bool timeline = false;  ///< Keep every event too, as long as the budget has room.
  /// What all processes' paths and events may take together; each its own of the default size where
  /// null.
  std::shared_ptr<MemoryBudget> memory{};
};

/// What a live display may show.
struct CollectorProgress {
  std::uint64_t events = 0;
  std::uint64_t ops = 0;  ///< Outermost selected op calls.
  std::size_t paths = 0;
  std::uint64_t lost = 0;
};

/// An op, and how often it was called.
struct OpCount {
  std::string name;  ///< `aten::add.Tensor`, as op records name it.
  std::uint64_t calls = 0;
};

/// The reader of one process's shared region (agent/recording_format.h): empties it while the
/// program runs, and counts paths as it reads. Everything in the region is hostile; what is
/// impossible throws Error(failed). One thread at a time.
///
///   Collector collector(descriptor, session, options);   // once the agent shares its region
///   while (the program runs) { collector.drain(); wait a little, or for the program; }
///   collector.finish();                                   // it stopped, ended, or died
///   write_trace(collector.take(meta), path);
class Collector {
 public:
  /// Maps the region; the descriptor may be closed afterwards. `session` has made the plans that
  /// are placed in the process, and must outlive the collector.
  Collector(int region, ProbeSession& session, CollectorOptions options);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  /// Reads what is there. True if there was anything. Also asks the agent to stop once enough was
  /// counted.
  bool drain();

  /// Reads the rest. Afterwards the region is not looked at again.
  void finish();

  CollectorProgress progress() const;

  /// The ops that occurred, `aten::add.Tensor`, as op records name them.
  std::vector<std::string> ops() const;

  /// All calls of ops so far, whatever was selected, by the ops' names.
  std::vector<OpCount> op_counts() const;

  /// The trace; once, after finish(). `meta` as in Trace; warnings, probes are added to it.
  Trace take(nlohmann::json meta);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace
