#include "tracer/collect/collector.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "tracer/collect/arena_reader.h"
#include "tracer/collect/chunk_reader.h"
#include "tracer/collect/event_converter.h"
#include "tracer/collect/live_functions.h"
#include "tracer/collect/path_counter.h"
#include "tracer/collect/pending_events.h"
#include "tracer/collect/shared_region.h"
#include "tracer/collect/tail_calls.h"
#include "tracer/collect/tick_clock.h"
#include "tracer/trace/recording.h"

namespace optrace {
namespace {

// Returns the Unix time at a time of this machine's CLOCK_MONOTONIC, both in nanoseconds; 0 if that
// is in the future.
std::uint64_t unix_time_of(std::uint64_t monotonic_ns) {
  const auto now_of = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(now.tv_nsec);
  };
  const std::uint64_t monotonic = now_of(CLOCK_MONOTONIC);
  const std::uint64_t unix_time = now_of(CLOCK_REALTIME);
  return monotonic_ns <= monotonic ? unix_time - (monotonic - monotonic_ns) : 0;
}

}  // namespace

struct Collector::State {
  State(int descriptor, ProbeSession& probe_session, CollectorOptions collector_options)
      : region(descriptor),
        session(probe_session),
        options(with_budget(std::move(collector_options))),
        arena(region, session, trace),
        functions(trace, arena.table(), arena.texts(), options.single_call),
        counter(functions, options.selection, options.memory),
        clock(moment_now()),
        chunks(region),
        converter(arena.texts(), arena.table(), clock),
        timeline(trace, *options.memory),
        events(chunks, arena, converter, counter, clock, options.timeline ? &timeline : nullptr) {}

  static CollectorOptions with_budget(CollectorOptions options) {
    if (!options.memory) options.memory = std::make_shared<MemoryBudget>();
    return options;
  }

  std::uint64_t read(std::uint64_t until, bool last, std::uint64_t most);
  void read_clocks();
  std::uint32_t add_thread(std::uint32_t id);
  void send_requests();
  std::uint64_t lost_events() const;
  void describe_recording(TraceMeta& meta) const;
  void describe_shortfalls(TraceMeta& meta) const;

  SharedRegion region;
  ProbeSession& session;
  const CollectorOptions options;
  Trace trace;
  ArenaReader arena;
  LiveFunctions functions;
  PathCounter counter;
  TickClock clock;
  ChunkReader chunks;
  EventConverter converter;
  KeptTimeline timeline;
  PendingEvents events;
  bool finished = false;
};

std::uint64_t Collector::State::read(std::uint64_t until, bool last, std::uint64_t most) {
  chunks.find_chunks(last);
  // After find_chunks(): sections are written before the events that refer to them.
  arena.read(events.counted() != 0);
  chunks.open_found([this](std::uint32_t id) { return add_thread(id); });
  read_clocks();
  return events.count(until, last, most);
}

// After find_chunks(): the start is written before the first event.
void Collector::State::read_clocks() {
  const recording::RegionHeader& shared = region.header();
  clock.measure(moment_now());
  const std::uint64_t stop = load_shared(shared.stop_ticks);
  if (clock.started().ticks == 0 && (stop != 0 || load_shared(shared.recording) != 0))
    clock.start({load_shared(shared.start_ticks), load_shared(shared.start_nanoseconds)});
  if (stop != 0) clock.measure_recording({stop, load_shared(shared.stop_nanoseconds)});
}

// Returns the new thread's index in the trace and the counter.
std::uint32_t Collector::State::add_thread(std::uint32_t id) {
  const std::uint32_t index = counter.add_thread();
  ThreadRecord& thread = trace.threads.emplace_back();
  thread.id = id;
  const std::vector<recording::InitialFrame> frames = arena.take_initial_stack(id);
  for (std::size_t i = frames.size(); i-- > 0;) {
    const recording::InitialFrame& raw = frames[i];
    // For a frame that is waiting for a call, an unwinder returns the address after the call
    // instruction.
    const InitialFrame frame{arena.table().caller(raw.instruction), raw.stack_pointer,
                             arena.table().as_linked(raw.return_address)};
    counter.add_initial(index, frame);
    if (options.timeline) thread.initial_stack.push_back(frame);
  }
  return index;
}

// Sends requests to the agent, plans one at a time.
void Collector::State::send_requests() {
  if (counter.enough()) std::atomic_ref(region.header().stop).store(1);
  arena.request_plan();
}

// Returns the number of events that were lost, of all threads.
std::uint64_t Collector::State::lost_events() const {
  std::uint64_t lost = load_shared(region.header().lost);
  for (const auto& [key, thread] : chunks.threads()) lost += thread.lost;
  return lost;
}

void Collector::State::describe_recording(TraceMeta& meta) const {
  meta.start_unix_ns = unix_time_of(clock.started().nanoseconds);
  meta.selection = options.selection;
  if (!options.single_call)
    meta.recording = {.duration_ns = events.last_time(), .events = events.counted()};
  const ArenaReader::ProbeCounts probes = arena.probe_counts();
  meta.probes.placed = probes.placed;
  meta.probes.failed = probes.failed;
}

void Collector::State::describe_shortfalls(TraceMeta& meta) const {
  for (const std::string& warning : session.warnings()) meta.warnings.push_back(warning);
  if (converter.lacks_positions()) meta.warnings.push_back(positions_warning());
  meta.untraced_children = load_shared(region.header().forks) != 0;
  if (load_shared(region.header().replaced) != 0) meta.shortfalls["program_replaced"] = 1;
  // What is below a hundredth of the time changes no conclusion.
  if (const std::uint64_t waited = load_shared(region.header().waited);
      waited > events.last_time() / 100)
    meta.shortfalls["program_waited"] = waited / 1'000'000;
  add_missing_python(meta, load_shared(region.header().python_missing));
  const std::uint64_t untied = counter.untied_activities();
  if (std::string warning = untied_activities_warning(untied); !warning.empty())
    meta.warnings.push_back(std::move(warning));
  if (untied != 0) meta.shortfalls["device_work_missing"] += untied;
  add_merged_paths(meta, counter);
  if (timeline.left_out() != 0) meta.shortfalls["timeline_ends"] += timeline.left_out();
  if (const std::uint64_t texts_lost = load_shared(region.header().arena_lost); texts_lost != 0) {
    meta.shortfalls["texts_lost"] += texts_lost;
    meta.warnings.push_back(
        fmt::format("{} names or op records did not fit into the buffer; frames that need them are "
                    "missing or nameless.",
                    texts_lost));
  }
}

Collector::Collector(int region, ProbeSession& session, CollectorOptions options)
    : state_(std::make_unique<State>(region, session, std::move(options))) {}

Collector::~Collector() = default;

std::uint64_t Collector::drain(std::uint64_t most) {
  send_heartbeat();
  const std::uint64_t read = state_->read(ticks_now(), false, most);
  state_->send_requests();
  return read;
}

void Collector::send_heartbeat() {
  std::atomic_ref(state_->region.header().heartbeat).fetch_add(1);
}

bool Collector::is_awaited() const {
  const recording::RegionHeader& shared = state_->region.header();
  return load_shared(shared.waiting) != 0 ||
         load_shared(shared.modules_reported) != load_shared(shared.modules_seen);
}

void Collector::finish() {
  if (std::exchange(state_->finished, true)) return;
  const std::uint64_t stop = load_shared(state_->region.header().stop_ticks);
  constexpr std::uint64_t kEverything = PendingEvents::kEverything;
  state_->read(stop == 0 ? kEverything : stop, true, kEverything);
}

CollectorProgress Collector::progress() const {
  return {.events = state_->events.counted(),
          .ops = state_->counter.ops(),
          .paths = state_->counter.paths(),
          .lost = state_->lost_events()};
}

std::vector<std::string> Collector::ops() const {
  std::set<std::string> ops;
  for (std::uint32_t record = 0; record < state_->arena.texts().op_records.size(); ++record)
    ops.emplace(state_->functions.op_name(record));
  ops.erase(std::string());
  return {ops.begin(), ops.end()};
}

std::vector<OpCount> Collector::op_counts() const {
  std::map<std::string_view, std::uint64_t> calls;
  for (std::uint32_t record = 0; record < state_->arena.texts().op_records.size(); ++record) {
    const std::uint64_t number = state_->counter.calls_with(record);
    if (number == 0) continue;
    const std::string_view name = state_->functions.op_name(record);
    if (!name.empty()) calls[name] += number;
  }
  std::vector<OpCount> counts;
  counts.reserve(calls.size());
  for (const auto& [name, number] : calls) counts.push_back({std::string(name), number});
  return counts;
}

Trace Collector::take(TraceMeta meta) {
  State& state = *state_;
  RecordedTexts& texts = state.arena.texts();
  // Taking the paths may add one, which needs the functions of the trace.
  std::vector<TracePath> paths = state.counter.take(state.events.last_time());
  Trace trace = std::move(state.trace);
  state.trace.functions = {};
  trace.paths = std::move(paths);
  trace.statistics = state.counter.statistics();
  resolve_positions(trace, texts.positions);
  if (state.options.timeline) add_jumps(trace, state.arena.table());
  trace.python_functions = std::move(texts.python_functions);
  trace.op_records = std::move(texts.op_records);
  for (const auto& [key, thread] : state.chunks.threads())
    trace.threads[thread.index].lost = thread.lost;
  const std::uint64_t lost = load_shared(state.region.header().lost);
  if (lost != 0) trace.threads.emplace_back().lost = lost;
  state.describe_recording(meta);
  state.describe_shortfalls(meta);
  trace.meta = std::move(meta);
  add_python_calls(trace, state.arena.python_calls());
  return trace;
}

}  // namespace optrace
