#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "target/interface/recording_format.h"
#include "tracer/collect/arena_reader.h"
#include "tracer/collect/chunk_reader.h"
#include "tracer/collect/event_converter.h"
#include "tracer/collect/memory_budget.h"
#include "tracer/collect/path_counter.h"
#include "tracer/collect/tick_clock.h"
#include "tracer/trace/trace.h"
#include "tracer/trace/trace_format.h"

namespace optrace {

/// Keeps the events of a trace's threads. The timeline ends when there is no room; later events are
/// only counted.
class KeptTimeline {
 public:
  /// Both must outlive this object.
  KeptTimeline(Trace& trace, MemoryBudget& memory) : trace_(trace), memory_(memory) {}

  void add(std::uint32_t thread, const Event& event) {
    // The vector doubles as it grows, and writing the file makes a copy.
    constexpr std::size_t kBytesPerEvent = 3 * sizeof(Event);
    if (left_out_ != 0 || kept_ == trace_format::kMaxEvents || !memory_.has_room_for_event()) {
      ++left_out_;
      return;
    }
    ++kept_;
    memory_.take(kBytesPerEvent);
    trace_.threads[thread].events.push_back(event);
  }

  /// The number of events for which there was no room.
  std::uint64_t left_out() const { return left_out_; }

 private:
  Trace& trace_;
  MemoryBudget& memory_;
  std::uint64_t kept_ = 0;
  std::uint64_t left_out_ = 0;
};

/// Merges the events of all threads by time, and counts them.
class PendingEvents {
 public:
  static constexpr std::uint64_t kEverything = std::numeric_limits<std::uint64_t>::max();

  /// All must outlive this object. Without a `timeline`, events are only counted.
  PendingEvents(ChunkReader& chunks, ArenaReader& arena, EventConverter& converter,
                PathCounter& counter, const TickClock& clock, KeptTimeline* timeline)
      : chunks_(chunks),
        arena_(arena),
        converter_(converter),
        counter_(counter),
        clock_(clock),
        timeline_(timeline) {}

  /// Counts the events up to the ticks `until`, at most about `most`. With `last`, threads write no
  /// more. Returns the number of events.
  std::uint64_t count(std::uint64_t until, bool last, std::uint64_t most);

  /// The number of events that were counted.
  std::uint64_t counted() const { return counted_; }

  /// The time of the last one, as in Event.
  std::uint64_t last_time() const { return last_time_; }

 private:
  /// The next event of a thread.
  struct Pending {
    ChunkReader::Thread* thread = nullptr;
    recording::Event raw{};
    std::optional<Event> event{};  ///< Set when needed.
    std::uint64_t time = 0;
    std::uint64_t due = 0;  ///< When it is counted, if no event of another thread is due before.
  };

  void fetch_all();
  bool fetch(Pending& pending);
  // Returns the event of pending.raw, or null if it has none.
  const Event* converted(Pending& pending);
  void add(Pending& pending);
  void add_known(ChunkReader::Thread& thread, std::uint64_t latest);
  bool count_first(std::uint64_t end_count);

  ChunkReader& chunks_;
  ArenaReader& arena_;
  EventConverter& converter_;
  PathCounter& counter_;
  const TickClock& clock_;
  KeptTimeline* const timeline_;
  std::uint64_t counted_ = 0;
  std::uint64_t last_time_ = 0;

  // Of the current count().
  std::vector<Pending> pending_;
  std::uint64_t end_ = 0;  ///< Later events are not counted, in ticks.
  std::uint64_t now_ = 0;  ///< The same as a time.
  bool last_ = false;
};

}  // namespace optrace
