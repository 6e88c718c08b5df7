#include "tracer/collect/timeline_paths.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "pytorch/functions/function_roles.h"
#include "tracer/calltree/call_observer.h"
#include "tracer/calltree/call_tree.h"
#include "tracer/calltree/path_functions.h"
#include "tracer/collect/path_counter.h"

namespace optrace {
namespace {

// The functions of a timeline.
class TracePathFunctions : public PathFunctions {
 public:
  explicit TracePathFunctions(const Trace& trace) : trace_(trace), tree_(trace) {}

  std::uint32_t identity(std::uint32_t function) const override { return tree_.identity(function); }
  bool probed(std::uint32_t function) const override { return tree_.probed(function); }
  bool enters_itself(std::uint32_t function) const override {
    return tree_.enters_itself(function);
  }
  bool is_evaluation_loop(std::uint32_t function) const override {
    return tree_.is_evaluation_loop(function);
  }
  bool is_agent(std::uint32_t function) const override { return tree_.is_agent(function); }
  bool begins_threads(std::uint32_t function) const override {
    return tree_.begins_threads(function);
  }
  bool runs_nodes(std::uint32_t function) const override { return tree_.runs_nodes(function); }
  bool can_jump(std::uint32_t from, std::uint32_t to) const override {
    return tree_.can_jump(from, to);
  }
  bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const override {
    return tree_.jump_is_indirect(from, to);
  }
  bool calls_by_name(const Event&, std::uint32_t) const override { return false; }
  OpStep op_step(std::uint32_t function, std::uint32_t record) const override {
    return tree_.op_step(function, record);
  }
  std::uint32_t op_of(std::uint32_t record) const override { return tree_.op_of(record); }
  const FunctionRole& role(std::uint32_t function) const override { return tree_.role(function); }
  bool is_uncounted(std::uint32_t) const override { return false; }
  std::uint32_t call_offset(const Event& entry, std::uint32_t caller) const override {
    return call_offset_of(trace_, entry, caller);
  }
  std::string_view python_name(std::uint32_t function) const override {
    return trace_.python_functions[function].name;
  }
  std::string_view op_name(std::uint32_t record) const override { return tree_.op_name(record); }

 private:
  const Trace& trace_;
  TraceCallTreeFunctions tree_;
};

// Records the calls of each thread, in the order in which they begin.
class CallList : public CallObserver {
 public:
  explicit CallList(std::size_t threads) : calls_(threads) {}

  std::uint32_t begin(std::uint32_t thread, std::uint32_t path, std::uint64_t time) override {
    calls_[thread].push_back({.path = path, .start = time, .end = time});
    return static_cast<std::uint32_t>(calls_[thread].size() - 1);
  }
  void end(std::uint32_t thread, std::uint32_t call, std::uint64_t time) override {
    PathCall& ended = calls_[thread][call];
    ended.end = std::max(ended.start, time);
  }
  std::vector<std::vector<PathCall>> take() { return std::move(calls_); }

 private:
  std::vector<std::vector<PathCall>> calls_;
};

// Puts callers before what they call. A call ends with its caller at the latest.
void nest(std::vector<PathCall>& calls) {
  std::ranges::stable_sort(calls, [](const PathCall& left, const PathCall& right) {
    return left.start != right.start ? left.start < right.start : left.end > right.end;
  });
  std::vector<std::uint64_t> open;  // The ends of the calls that have not ended.
  for (PathCall& call : calls) {
    while (!open.empty() && open.back() <= call.start) open.pop_back();
    if (!open.empty()) call.end = std::min(call.end, open.back());
    open.push_back(call.end);
  }
}

// Adds a trace's events to a counter, in the order of time. Returns the time of the last one.
std::uint64_t add_timeline(const Trace& trace, PathCounter& counter) {
  for (const ThreadRecord& thread : trace.threads) {
    const std::uint32_t index = counter.add_thread();
    for (const InitialFrame& frame : thread.initial_stack) counter.add_initial(index, frame);
    for (std::size_t i = 0; i < thread.events.size(); ++i)
      check_event(trace, thread.events[i], i, thread.id);
  }
  // Merges the threads by time; workers wait as delay() requires.
  std::vector<std::size_t> next(trace.threads.size());
  std::uint64_t last = 0;
  while (true) {
    std::optional<std::uint32_t> first;
    std::uint64_t earliest = 0;
    std::uint64_t second = std::numeric_limits<std::uint64_t>::max();
    for (std::uint32_t i = 0; i < next.size(); ++i) {
      if (next[i] == trace.threads[i].events.size()) continue;
      const Event& event = trace.threads[i].events[next[i]];
      const std::uint64_t due = event.time + counter.delay(i, event);
      if (!first || due < earliest) {
        if (first) second = std::min(second, earliest);
        first = i;
        earliest = due;
      } else {
        second = std::min(second, due);
      }
    }
    if (!first) break;
    const std::vector<Event>& events = trace.threads[*first].events;
    std::size_t& at = next[*first];
    do {
      last = std::max(last, events[at].time);
      counter.add(*first, events[at++]);
    } while (at < events.size() && events[at].time < second &&
             counter.delay(*first, events[at]) == 0);
  }
  return last;
}

}  // namespace

void count_paths(Trace& trace, const TraceSelection& selection,
                 std::shared_ptr<MemoryBudget> budget) {
  const TracePathFunctions functions(trace);
  PathCounter counter(functions, selection, std::move(budget));
  const std::uint64_t last = add_timeline(trace, counter);
  trace.paths = counter.take(last);
  trace.statistics = counter.statistics();
  if (std::string warning = untied_activities_warning(counter.untied_activities());
      !warning.empty()) {
    trace.meta.warnings.push_back(std::move(warning));
    trace.meta.shortfalls["device_work_missing"] += counter.untied_activities();
  }
  add_merged_paths(trace.meta, counter);
}

CountedTimeline count_timeline(const Trace& trace, const TraceSelection& selection) {
  const TracePathFunctions functions(trace);
  PathCounter counter(functions, selection);
  CallList list(trace.threads.size());
  counter.observe(list);
  const std::uint64_t last = add_timeline(trace, counter);
  std::vector<std::uint32_t> places;
  CountedTimeline counted{.paths = counter.take(last, &places),
                          .statistics = counter.statistics(),
                          .calls = list.take()};
  for (std::vector<PathCall>& calls : counted.calls) {
    for (PathCall& call : calls) call.path = places[call.path];
    nest(calls);
  }
  return counted;
}

}  // namespace optrace
