#include "tracer/collect/collector.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracer/collect/function_table.h"
#include "tracer/collect/live_functions.h"
#include "tracer/collect/path_counter.h"
#include "tracer/collect/shared_region.h"
#include "tracer/collect/tail_calls.h"
#include "tracer/collect/tick_clock.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace_format.h"

namespace optrace {
namespace {

using recording::ChunkState;

constexpr std::uint64_t kEverything = std::numeric_limits<std::uint64_t>::max();

// The limit for waiting for an empty slot near the end of a sealed chunk, or before filled ones.
// Its thread may have been interrupted while it filled the slot.
constexpr int kMaxWaitsForSlot = 50;  // In rounds.

// Signals to the program that its reader is alive during a long operation.
class Heart {
 public:
  explicit Heart(recording::RegionHeader& header)
      : thread_([&header](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any stopped;
          constexpr std::chrono::milliseconds kBeat{100};
          while (!stopped.wait_for(lock, stop, kBeat, [&stop] { return stop.stop_requested(); }))
            std::atomic_ref(header.heartbeat).fetch_add(1);
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

struct Collector::State {
  // A thread's chunks in order, and how far they have been read.
  struct Reader {
    std::uint32_t index = 0;  // Index of the thread in the trace and the counter.
    std::map<std::uint64_t, std::uint32_t> chunks;
    std::uint32_t at = 0;  // The next event in the first chunk.
    int waits = 0;         // Rounds in which a slot in a sealed chunk stayed empty.
  };

  State(int descriptor, ProbeSession& probe_session, CollectorOptions wanted)
      : region(descriptor),
        session(probe_session),
        options(with_budget(std::move(wanted))),
        table(texts.modules, probe_session.modules(), trace),
        functions(trace, table, texts, options.single_call),
        counter(functions, options.selection, options.memory),
        known_chunks(region.chunk_count()),
        clock(region.header().start_ticks, region.header().start_nanoseconds) {}

  static CollectorOptions with_budget(CollectorOptions options) {
    if (!options.memory) options.memory = std::make_shared<MemoryBudget>();
    return options;
  }

  std::uint64_t read(std::uint64_t until, bool last, std::uint64_t most);
  void read_arena();
  void plan_for_loaded(std::uint32_t told);
  void read_section(recording::SectionKind kind, std::span<const std::byte> bytes);
  void add_initial_stack(std::span<const std::byte> bytes);
  void find_chunks(bool last);
  void open_readers();
  Reader& reader_of(const recording::ChunkHeader& header);
  bool next_event(Reader& reader, bool last, recording::Event& event);
  void give_back(std::uint32_t chunk);
  bool waits_for_module(const recording::Event& raw);
  bool read_event(const recording::Event& raw, Event& event);
  void keep(std::uint32_t thread, const Event& event);
  void ask();

  SharedRegion region;
  ProbeSession& session;
  const CollectorOptions options;
  RecordedTexts texts;
  // Index into texts.probes, and offset of the section.
  std::vector<std::pair<std::size_t, std::uint64_t>> ranges;
  std::size_t probes_added = 0;
  Trace trace;
  std::uint64_t events_kept = 0;  // In the timeline.
  std::uint64_t events_left_out = 0;
  FunctionTable table;
  LiveFunctions functions;
  PathCounter counter;
  std::map<std::uint64_t, Reader> readers;  // By thread and first chunk.
  std::vector<std::uint8_t> known_chunks;
  std::uint32_t chunks_met = 0;  // No chunk from there on has been taken yet, as far as is known.
  TickClock clock;
  std::map<std::uint32_t, recording::ChunkHeader> found_chunks;  // Chunks without a reader.
  std::map<std::uint32_t, std::vector<recording::InitialFrame>> waiting_initial;  // By gettid.
  std::uint64_t arena_read = 0;
  std::uint64_t events = 0;
  std::uint64_t last_time = 0;
  // Of the monotonic clock, in nanoseconds.
  std::uint64_t started = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  std::vector<std::filesystem::path> plans_to_place;
  std::uint32_t plans_asked = 0;
  std::uint32_t modules_told = 0;  // The agent's last value.
  // The agent's modules_put when the arena was last read, and since when an event has waited for a
  // module of which there was no section then.
  std::uint32_t modules_read = 0;
  std::optional<std::chrono::steady_clock::time_point> waits_since;
  // The number of listed modules that were planned, or present from the start.
  std::optional<std::size_t> modules_known;
  std::set<std::string> plans_of_loaded;
  bool finished = false;
  bool lacks_positions = false;  // True if some event lacks its position.
};

void Collector::State::read_arena() {
  // Read first: the sections of these modules are then complete.
  const std::uint32_t told = load_shared(region.header().modules_told);
  const std::uint32_t put = load_shared(region.header().modules_put);
  if (put != std::exchange(modules_read, put)) waits_since.reset();
  // If true, the sections that the agent writes at the start are complete; the modules are the
  // last.
  const bool begun =
      load_shared(region.header().recording) != 0 || load_shared(region.header().stop_ticks) != 0;
  const std::span<std::byte> arena = region.arena();
  const std::uint64_t used =
      std::min<std::uint64_t>(load_shared(region.header().arena_used), arena.size());
  while (arena_read + sizeof(recording::SectionHeader) <= used) {
    const auto& shared =
        *reinterpret_cast<const recording::SectionHeader*>(arena.data() + arena_read);
    const recording::SectionKind kind = load_shared(shared.kind);
    if (static_cast<std::uint32_t>(kind) == 0) break;  // Being written.
    const std::uint64_t size = shared.size;
    const std::uint64_t room = used - arena_read - sizeof(recording::SectionHeader);
    if (size > room) refuse_region("a section is larger than the memory that contains it");
    // A copy, which can't change after it was checked.
    const std::byte* const content = arena.data() + arena_read + sizeof(recording::SectionHeader);
    const std::vector<std::byte> bytes(content, content + size);
    read_section(kind, bytes);
    if (kind == recording::SectionKind::probes)
      ranges.emplace_back(texts.probes.size() - 1, arena_read);
    arena_read += sizeof(recording::SectionHeader) + (size + 7) / 8 * 8;
  }
  // A plan's section precedes its module's.
  for (; begun && probes_added < texts.probes.size(); ++probes_added) {
    const PlacedProbes& placed = texts.probes[probes_added];
    const bool late = events != 0 && !plans_of_loaded.contains(placed.plan_path);
    table.add_probes(placed, session.plan_of(placed), late);
  }
  if (begun) plan_for_loaded(told);
}

// Plans probes for the modules that were loaded since recording began. The agent waits for the
// probes.
void Collector::State::plan_for_loaded(std::uint32_t told) {
  if (!modules_known) modules_known = told == 0 ? texts.modules.size() : 0;
  if (told == modules_told) return;
  modules_told = told;
  const Heart heart(region.header());
  for (; *modules_known < texts.modules.size(); ++*modules_known) {
    const LoadedModule& module =
        *std::next(texts.modules.begin(), static_cast<std::ptrdiff_t>(*modules_known));
    std::filesystem::path plan = session.plan_for_loaded(module);
    if (plan.empty()) continue;
    plans_of_loaded.insert(plan.string());
    plans_to_place.push_back(std::move(plan));
  }
}

void Collector::State::read_section(recording::SectionKind kind, std::span<const std::byte> bytes) {
  if (kind == recording::SectionKind::initial_stack) {
    add_initial_stack(bytes);
    return;
  }
  if (!texts.read(kind, bytes)) refuse_region("a section is of an unknown kind");
  if (kind != recording::SectionKind::probes) return;
  const PlacedProbes& placed = texts.probes.back();
  const std::uint64_t end = std::uint64_t{placed.first_id} + placed.count;
  if (end > recording::kFirstPythonEvent) refuse_region("its probes' numbers");
  for (const PlacedProbes& other : texts.probes) {
    if (&other != &placed && placed.first_id < std::uint64_t{other.first_id} + other.count &&
        other.first_id < end)
      refuse_region("its probes overlap");
  }
}

void Collector::State::add_initial_stack(std::span<const std::byte> bytes) {
  recording::InitialStack stack{};
  if (bytes.size() < sizeof stack) refuse_region("an initial stack is malformed");
  std::memcpy(&stack, bytes.data(), sizeof stack);
  bytes = bytes.subspan(sizeof stack);
  if (bytes.size() % sizeof(recording::InitialFrame) != 0 ||
      stack.count != bytes.size() / sizeof(recording::InitialFrame)) {
    refuse_region("an initial stack is malformed");
  }
  std::vector<recording::InitialFrame>& frames =
      waiting_initial[static_cast<std::uint32_t>(stack.thread)];
  frames.resize(stack.count);
  if (!frames.empty()) std::memcpy(frames.data(), bytes.data(), bytes.size());
}

Collector::State::Reader& Collector::State::reader_of(const recording::ChunkHeader& header) {
  const std::uint64_t key = std::uint64_t{header.thread} << 32 | header.first;
  const auto [place, is_new] = readers.try_emplace(key);
  Reader& reader = place->second;
  if (is_new) {
    reader.index = counter.add_thread();
    trace.threads.emplace_back().id = header.thread;
    if (const auto waiting = waiting_initial.find(header.thread);
        waiting != waiting_initial.end()) {
      for (std::size_t i = waiting->second.size(); i-- > 0;) {
        const recording::InitialFrame& raw = waiting->second[i];
        // For a frame that is waiting for a call, an unwinder returns the address after the call
        // instruction.
        const InitialFrame frame{table.caller(raw.instruction), raw.stack_pointer,
                                 table.as_linked(raw.return_address)};
        counter.add_initial(reader.index, frame);
        if (options.timeline) trace.threads.back().initial_stack.push_back(frame);
      }
      waiting_initial.erase(waiting);
    }
  }
  return reader;
}

void Collector::State::find_chunks(bool last) {
  for (std::uint32_t i = 0; i < region.chunk_count(); ++i) {
    if (known_chunks[i] != 0) continue;
    recording::ChunkHeader& header = region.chunk(i);
    if (load_shared(header.state) == static_cast<std::uint32_t>(ChunkState::free)) {
      // A thread takes the first free chunk, so those after one that was never taken are free. (A
      // thread that got no memory for a chunk may have left it again.)
      if (i >= chunks_met && !last) break;
      continue;
    }
    chunks_met = std::max(chunks_met, i + 1);
    // Owned; the owner has written the header once an event is complete.
    if (load_shared(region.events(i)->ticks) == 0 &&
        load_shared(header.state) != static_cast<std::uint32_t>(ChunkState::sealed))
      continue;
    recording::ChunkHeader& copy = found_chunks[i];
    std::memcpy(&copy, &header, sizeof copy);
    known_chunks[i] = 1;
  }
}

void Collector::State::open_readers() {
  for (const auto& [index, header] : std::exchange(found_chunks, {})) {
    Reader& reader = reader_of(header);
    trace.threads[reader.index].lost += header.lost;
    reader.chunks.emplace(header.order, index);
  }
}

void Collector::State::give_back(std::uint32_t index) {
  recording::ChunkHeader& header = region.chunk(index);
  std::memset(static_cast<void*>(region.events(index)), 0,
              recording::kChunkSize - sizeof(recording::ChunkHeader));
  known_chunks[index] = 0;
  std::atomic_ref(header.state)
      .store(static_cast<std::uint32_t>(ChunkState::free), std::memory_order_release);
  recording::RegionHeader& shared = region.header();
  std::atomic_ref(shared.freed).fetch_add(1);
  if (load_shared(shared.waiting) != 0)
    syscall(SYS_futex, &shared.freed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Returns the thread's next event without consuming it.
bool Collector::State::next_event(Reader& reader, bool last, recording::Event& event) {
  while (!reader.chunks.empty()) {
    const std::uint32_t index = reader.chunks.begin()->second;
    const bool sealed =
        load_shared(region.chunk(index).state) == static_cast<std::uint32_t>(ChunkState::sealed);
    recording::Event* const slots = region.events(index);
    if (reader.at < recording::kEventsPerChunk) {
      if (load_shared(slots[reader.at].ticks) != 0) {
        std::memcpy(&event, &slots[reader.at], sizeof event);
        reader.waits = 0;
        return true;
      }
      if (!sealed && !last) return false;
      // The slot was taken and is not filled yet, or was never taken.
      const bool more =
          std::any_of(slots + reader.at + 1, slots + recording::kEventsPerChunk,
                      [](const auto& later) { return load_shared(later.ticks) != 0; });
      constexpr std::uint32_t kNearEnd = 8;  // Signal handlers may have taken the slots after it.
      const bool suspicious = more || reader.at + kNearEnd >= recording::kEventsPerChunk;
      if (!last && suspicious && reader.waits++ < kMaxWaitsForSlot) return false;
      if (more) {
        ++reader.at;
        continue;
      }
    } else if (!sealed && !last) {
      return false;
    }
    if (sealed) give_back(index);
    reader.chunks.erase(reader.chunks.begin());
    reader.at = 0;
    reader.waits = 0;
  }
  return false;
}

// Returns true if an event refers to a module that is being loaded, of which the agent will write a
// section soon.
bool Collector::State::waits_for_module(const recording::Event& raw) {
  constexpr std::chrono::seconds kPatience{2};
  if (load_shared(region.header().modules_met) == modules_read) return false;
  const bool of_caller = recording::is_caller(raw.id);
  if (!of_caller && raw.id >= recording::kFirstPythonEvent) return false;
  const auto is_unknown = [&](std::uint64_t address) {
    return address != 0 && texts.modules.at(address - 1) == nullptr;
  };
  if (!is_unknown(raw.return_address) &&
      !(of_caller && is_unknown(recording::address_in_caller(raw.id, raw.line))))
    return false;
  const auto now = std::chrono::steady_clock::now();
  if (!waits_since) waits_since = now;
  return now - *waits_since < kPatience;
}

// Converts a recorded event. Returns false if it is invalid.
bool Collector::State::read_event(const recording::Event& raw, Event& event) {
  event = {};
  if (of_python(raw)) {
    lacks_positions = lacks_positions || lacks_position(raw);
    event = python_event(raw, texts.positions);
  }
  event.stack_pointer = raw.stack_pointer;
  event.time = clock.nanoseconds(raw.ticks);
  if (of_python(raw)) return raw.return_address < texts.python_functions.size();
  if (raw.id < recording::kFirstPythonEvent) {
    if (!table.has_probe(raw.id)) return false;
    event.what = table.function_of_probe(raw.id);
    const FunctionTable::Caller caller = table.find_caller(raw.return_address);
    event.caller = caller.function;
    event.return_address = caller.return_address;
    return true;
  }
  if (recording::is_caller(raw.id)) return table.read_caller(raw, event);
  if (raw.id == recording::kReturnedValue) return table.read_returned(raw, event);
  if (raw.id > recording::kLastKind) return false;
  constexpr auto kFirst = static_cast<std::uint32_t>(EventKind::python_call);
  event.kind = static_cast<EventKind>(raw.id - recording::kFirstPythonEvent + kFirst);
  event.return_address = raw.return_address;
  if (raw.id == recording::kArguments) {
    event.what = 0;
    event.line = raw.line;
  } else {
    event.what = raw.line < texts.op_records.size() ? raw.line : 0;
  }
  return true;
}

std::uint64_t Collector::State::read(std::uint64_t until, bool last, std::uint64_t most) {
  find_chunks(last);
  read_arena();  // After find_chunks(): sections are written before the events that refer to them.
  open_readers();
  clock.measure(load_shared(region.header().stop_ticks),
                load_shared(region.header().stop_nanoseconds));
  const std::uint64_t before = events;
  struct Pending {
    Reader* reader = nullptr;
    recording::Event raw{};
    std::optional<Event> event{};  // Set when needed.
    std::uint64_t time = 0;
    std::uint64_t due = 0;
  };
  std::uint64_t end = until;
  std::uint64_t now = until == kEverything ? kEverything : clock.nanoseconds(until);
  const auto resolve = [&](Pending& pending) {
    Event event;
    if (!read_event(pending.raw, event)) return false;
    pending.event = event;
    return true;
  };
  const auto fetch = [&](Pending& pending) {
    pending.event.reset();
    while (next_event(*pending.reader, last, pending.raw)) {
      if (pending.raw.ticks > end) return false;
      if (!last && waits_for_module(pending.raw)) {
        end = pending.raw.ticks;  // Later events of other threads wait, too.
        now = clock.nanoseconds(end);
        return false;
      }
      pending.due = pending.time = clock.nanoseconds(pending.raw.ticks);
      const bool wanted = pending.raw.ticks >= clock.start_ticks();
      if (wanted && !options.timeline && !counter.may_wait(pending.reader->index)) return true;
      if (wanted && resolve(pending)) {
        pending.due += counter.patience(pending.reader->index, *pending.event);
        return true;
      }
      ++pending.reader->at;
    }
    return false;
  };
  const auto add = [&](Pending& pending) {
    const recording::Event& raw = pending.raw;
    const std::uint32_t thread = pending.reader->index;
    if (options.timeline || !counter.add_known(thread, raw, pending.time)) {
      if (!pending.event && !resolve(pending)) return;
      counter.add(thread, *pending.event, key_of(raw));
      if (options.timeline && pending.event->kind != EventKind::returned)
        keep(thread, *pending.event);
    }
    last_time = std::max(last_time, pending.time);
    ++events;
  };
  // Most events are known: adds those that follow and are not later than `latest`.
  const auto add_known = [&](Reader& reader, std::uint64_t latest) {
    if (options.timeline || reader.chunks.empty()) return;
    const std::span slots(region.events(reader.chunks.begin()->second), recording::kEventsPerChunk);
    const std::size_t added =
        counter.add_known(reader.index, slots.subspan(reader.at), clock, latest);
    if (added == 0) return;
    const std::uint64_t ticks = load_shared(slots[reader.at + added - 1].ticks);
    last_time = std::max(last_time, clock.nanoseconds(ticks));
    reader.at += static_cast<std::uint32_t>(added);
    events += added;
  };
  std::vector<Pending> pending;
  for (auto& [key, reader] : readers) {
    if (reader.chunks.empty()) continue;
    Pending next{.reader = &reader};
    if (fetch(next)) pending.push_back(next);
  }
  while (!pending.empty() && events - before < most) {
    std::size_t first = 0;
    std::uint64_t second = kEverything;
    for (std::size_t i = 1; i < pending.size(); ++i) {
      if (pending[i].due < pending[first].due) {
        second = std::min(second, pending[first].due);
        first = i;
      } else {
        second = std::min(second, pending[i].due);
      }
    }
    Pending& next = pending[first];
    if (next.due > now) break;  // Other threads may still have earlier events.
    bool more = true;
    do {
      add(next);
      ++next.reader->at;
      add_known(*next.reader, std::min(second, now));
      more = fetch(next);
    } while (more && next.due <= second && next.due <= now && events - before < most);
    if (!more) pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(first));
  }
  return events - before;
}

// Adds an event to the timeline. The timeline ends when there is no room; later events are counted.
void Collector::State::keep(std::uint32_t thread, const Event& event) {
  // The vector doubles as it grows, and writing the file makes a copy.
  constexpr std::size_t kBytesPerEvent = 3 * sizeof(Event);
  if (events_left_out != 0 || events_kept == trace_format::kMaxEvents ||
      !options.memory->has_room_for_event()) {
    ++events_left_out;
    return;
  }
  ++events_kept;
  options.memory->take(kBytesPerEvent);
  trace.threads[thread].events.push_back(event);
}

// Sends the requests to the agent, one at a time.
void Collector::State::ask() {
  recording::RegionHeader& shared = region.header();
  if (counter.enough()) std::atomic_ref(shared.stop).store(1);
  if (load_shared(shared.plan_done) != plans_asked) return;
  if (plans_to_place.empty()) {
    std::atomic_ref(shared.modules_seen).store(modules_told);
    return;
  }
  const std::string path = plans_to_place.front().string();
  plans_to_place.erase(plans_to_place.begin());
  if (path.size() >= recording::kMaxPlanPathLength) return;
  std::memcpy(shared.plan_path, path.c_str(), path.size() + 1);
  std::atomic_ref(shared.plan_wanted).store(++plans_asked);
}

Collector::Collector(int region, ProbeSession& session, CollectorOptions options)
    : state_(std::make_unique<State>(region, session, std::move(options))) {}

Collector::~Collector() = default;

std::uint64_t Collector::drain(std::uint64_t most) {
  beat();
  const std::uint64_t read = state_->read(ticks_now(), false, most);
  state_->ask();
  return read;
}

void Collector::beat() {
  std::atomic_ref(state_->region.header().heartbeat).fetch_add(1);
}

bool Collector::is_awaited() const {
  const recording::RegionHeader& shared = state_->region.header();
  return load_shared(shared.waiting) != 0 ||
         load_shared(shared.modules_told) != load_shared(shared.modules_seen);
}

void Collector::finish() {
  if (std::exchange(state_->finished, true)) return;
  const std::uint64_t stop = load_shared(state_->region.header().stop_ticks);
  state_->read(stop == 0 ? kEverything : stop, true, kEverything);
}

CollectorProgress Collector::progress() const {
  CollectorProgress progress;
  progress.events = state_->events;
  progress.ops = state_->counter.ops();
  progress.paths = state_->counter.paths();
  progress.lost = load_shared(state_->region.header().lost);
  for (const ThreadRecord& thread : state_->trace.threads) progress.lost += thread.lost;
  return progress;
}

std::vector<std::string> Collector::ops() const {
  std::set<std::string> ops;
  for (std::uint32_t record = 0; record < state_->texts.op_records.size(); ++record)
    ops.emplace(state_->functions.op_name(record));
  ops.erase(std::string());
  return {ops.begin(), ops.end()};
}

std::vector<OpCount> Collector::op_counts() const {
  std::map<std::string_view, std::uint64_t> calls;
  for (std::uint32_t record = 0; record < state_->texts.op_records.size(); ++record) {
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

Trace Collector::take(nlohmann::json meta) {
  State& state = *state_;
  // Taking the paths may add one, which needs the functions of the trace.
  std::vector<TracePath> paths = state.counter.take(state.last_time);
  Trace trace = std::move(state.trace);
  state.trace.functions = {};
  trace.paths = std::move(paths);
  trace.statistics = state.counter.statistics();
  resolve_positions(trace, state.texts.positions);
  if (state.options.timeline) add_jumps(trace, state.table);
  trace.python_functions = std::move(state.texts.python_functions);
  trace.op_records = std::move(state.texts.op_records);
  const std::uint64_t lost = load_shared(state.region.header().lost);
  if (lost != 0) trace.threads.emplace_back().lost = lost;
  if (!meta.is_object()) meta = nlohmann::json::object();
  note_start(meta, state.clock.start_nanoseconds());
  if (const TraceSelection& selected = state.options.selection; !selected.everything())
    meta["selection"] = {{"ops", selected.ops},
                         {"from_module", selected.from_module},
                         {"skip", selected.skip},
                         {"count", selected.count}};
  if (!state.options.single_call) {
    meta["recording"] = {
        {"duration_ns", state.last_time - std::min(state.last_time, state.started)},
        {"events", state.events}};
  }
  std::uint64_t placed = 0, failed = 0;
  for (const auto& [index, at] : state.ranges) {
    recording::ProbeRange range{};
    std::memcpy(&range, state.region.arena().data() + at + sizeof(recording::SectionHeader),
                sizeof range);
    const std::uint32_t count = state.texts.probes[index].count;
    const std::uint32_t now = std::min(range.placed, count);
    placed += now;
    failed += count - now;
  }
  if (!meta["probes"].is_object()) meta["probes"] = nlohmann::json::object();
  meta["probes"]["placed"] = placed;
  meta["probes"]["failed"] = failed;
  if (!meta["warnings"].is_array()) meta["warnings"] = nlohmann::json::array();
  for (const std::string& warning : state.session.warnings()) meta["warnings"].push_back(warning);
  if (state.lacks_positions) meta["warnings"].push_back(positions_warning());
  note_missing_python(meta, load_shared(state.region.header().python_missing));
  if (std::string warning = untied_activities_warning(state.counter.untied_activities());
      !warning.empty())
    meta["warnings"].push_back(std::move(warning));
  if (const std::uint64_t untied = state.counter.untied_activities(); untied != 0)
    note_shortfall(meta, "device_work_missing", untied);
  note_merged_paths(meta, state.counter);
  if (state.events_left_out != 0) note_shortfall(meta, "timeline_ends", state.events_left_out);
  if (const std::uint64_t texts_lost = load_shared(state.region.header().arena_lost);
      texts_lost != 0) {
    note_shortfall(meta, "texts_lost", texts_lost);
    meta["warnings"].push_back(
        fmt::format("{} names or op records did not fit into the buffer; frames that need them are "
                    "missing or nameless.",
                    texts_lost));
  }
  trace.meta = std::move(meta);
  return trace;
}

}  // namespace optrace
