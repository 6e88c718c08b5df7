#include "tracer/collect/recorded_trace.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "tracer/collect/function_table.h"
#include "tracer/collect/tail_calls.h"
#include "tracer/collect/timeline_paths.h"
#include "tracer/trace/recording.h"

namespace optrace {
namespace {

/// Adds a recording's threads to a trace, and every function that they refer to, each once.
class TraceMaker {
 public:
  TraceMaker(Recording& recording, ModuleStore& store)
      : recording_(recording), functions_(recording.modules(), store, trace_) {}

  void add_probes(const PlacedProbes& range, const ProbePlan& plan) {
    functions_.add_probes(range, plan, false);
  }
  void add_thread(const Recording::Thread& thread);
  void add_jumps() { optrace::add_jumps(trace_, functions_); }
  Trace take() { return std::move(trace_); }
  bool lacks_positions() const { return lacks_positions_; }

 private:
  Recording& recording_;
  Trace trace_;
  FunctionTable functions_;
  bool lacks_positions_ = false;
};

void TraceMaker::add_thread(const Recording::Thread& thread) {
  ThreadRecord made;
  made.id = thread.id;
  made.lost = thread.lost;
  for (std::size_t i = thread.initial.size(); i-- > 0;) {
    const recording::InitialFrame frame = thread.initial[i];
    // For a frame that is waiting for a call, an unwinder returns the address after the call
    // instruction.
    made.initial_stack.push_back({functions_.caller(frame.instruction), frame.stack_pointer,
                                  functions_.as_linked(frame.return_address)});
  }
  made.events.reserve(thread.events.size());
  for (std::size_t i = 0; i < thread.events.size(); ++i) {
    const recording::Event raw = thread.events[i];
    Event event;
    if (recording::is_caller(raw.id)) {
      if (!functions_.read_caller(raw, event)) continue;
    } else if (raw.id == recording::kReturnedValue) {
      if (!functions_.read_returned(raw, event)) continue;
    } else if (of_python(raw)) {
      event = python_event(raw, recording_.positions());
      lacks_positions_ = lacks_positions_ || lacks_position(raw);
    } else if (raw.id >= recording::kFirstPythonEvent) {
      constexpr auto kFirst = static_cast<std::uint32_t>(EventKind::python_call);
      event.kind = static_cast<EventKind>(raw.id - recording::kFirstPythonEvent + kFirst);
      const bool of_arguments = raw.id == recording::kArguments;
      event.what = of_arguments ? 0 : raw.line;
      event.line = of_arguments ? raw.line : 0;
      event.return_address = raw.return_address;
    } else {
      event.what = functions_.function_of_probe(raw.id);
      const FunctionTable::Caller caller = functions_.find_caller(raw.return_address);
      event.caller = caller.function;
      event.return_address = caller.return_address;
    }
    event.stack_pointer = raw.stack_pointer;
    event.time = recording_.nanoseconds(raw.ticks);
    made.events.push_back(event);
  }
  trace_.threads.push_back(std::move(made));
}

}  // namespace

Trace read_recorded_trace(ProbeSession& session, const std::filesystem::path& raw_recording,
                          nlohmann::json meta) {
  Recording recording(raw_recording);
  TraceMaker maker(recording, session.modules());
  std::uint64_t placed = 0;
  std::uint64_t failed = 0;
  for (const PlacedProbes& range : recording.probes()) {
    maker.add_probes(range, session.plan_of(range));
    placed += range.placed;
    failed += range.count - range.placed;
  }
  for (const Recording::Thread& thread : recording.threads()) maker.add_thread(thread);
  maker.add_jumps();

  Trace trace = maker.take();
  trace.python_functions = recording.python_functions();
  trace.op_records = recording.op_records();
  count_paths(trace, {});
  for (ThreadRecord& thread : trace.threads)
    std::erase_if(thread.events,
                  [](const Event& event) { return event.kind == EventKind::returned; });
  resolve_positions(trace, recording.positions());
  if (!meta.is_object()) meta = nlohmann::json::object();
  note_start(meta, recording.start_nanoseconds());
  meta["probes"]["placed"] = placed;
  meta["probes"]["failed"] = failed;
  if (!meta["warnings"].is_array()) meta["warnings"] = nlohmann::json::array();
  for (const std::string& warning : session.warnings()) meta["warnings"].push_back(warning);
  if (maker.lacks_positions()) meta["warnings"].push_back(positions_warning());
  note_missing_python(meta, recording.python_missing());
  for (nlohmann::json& warning : trace.meta["warnings"])
    meta["warnings"].push_back(std::move(warning));
  trace.meta = std::move(meta);
  return trace;
}

}  // namespace optrace
