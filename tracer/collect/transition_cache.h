#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// An event without its time, in numbers that keep their meaning throughout a recording.
struct EventKey {
  std::uint32_t id = 0;
  std::uint32_t line = 0;
  std::uint64_t stack_pointer = 0;
  std::uint64_t return_address = 0;
  bool operator==(const EventKey&) const = default;
};

inline EventKey key_of(const recording::Event& raw) {
  return {raw.id, raw.line, raw.stack_pointer, raw.return_address};
}

/// Returns true if an event of this kind is identified by its key: function entries, callers and
/// Python events.
inline bool may_be_known(const recording::Event& raw) {
  return raw.id < recording::kFirstPythonEvent || recording::is_caller(raw.id) || of_python(raw);
}

/// A state and an event in it. Equal keys have equal outcomes.
struct TransitionKey {
  std::uint32_t state = 0;
  EventKey event{};
  bool operator==(const TransitionKey&) const = default;
};

/// A frame that an event enters.
struct EnteredFrame {
  /// The address of its return slot; of a Python frame, node or op: the number of native frames
  /// outside of it.
  std::uint64_t slot = 0;
  std::uint32_t path = kNone;
  std::uint32_t step = 0;     ///< As CallTreeRules::LivePython::step.
  bool counts = true;         ///< False if its path is not entered with it.
  bool takes_data = false;    ///< FunctionRole::region_data of its function.
  bool opens_region = false;  ///< FunctionRole::opens_region of its function.
};

/// The effect of an event on a state.
struct Outcome {
  std::uint32_t state = 0;
  std::uint32_t kept_native = 0;  ///< Native frames that stay live.
  std::uint32_t kept_python = 0;  ///< Python frames that stay live.
  std::uint32_t native = 0;       ///< Native frames afterwards.
  std::uint32_t python = 0;       ///< Python frames afterwards.
  /// With `enters_one`, the path of the new frame; else the position of the first new frame in
  /// TransitionCache's list.
  std::uint32_t entered = kNone;
  /// Statistics to increment: bits in the order of kCallTreeStatistics.
  std::uint16_t rules = 0;
  /// There is only one new frame, it is native, and the event has its slot. The next three are as
  /// in EnteredFrame.
  bool enters_one : 1 = false;
  bool counts : 1 = false;
  bool takes_data : 1 = false;
  bool opens_region : 1 = false;
};

/// Caches the outcomes of a thread's transitions. Programs repeat themselves: the transition that
/// followed last time is tried first, and its entry is next in memory.
class TransitionCache {
 public:
  /// Returns the transition's outcome, valid until the next add(), or null.
  const Outcome* find(const TransitionKey& transition) {
    if (last_ != kNone) {
      const std::uint32_t guess = entries_[last_].next;
      if (guess != kNone && entries_[guess].is(transition)) {
        last_ = guess;
        return &entries_[guess].outcome;
      }
    }
    if (places_.empty()) return nullptr;
    const std::uint32_t found = places_[place_of(transition)];
    if (found == kNone) return nullptr;
    follow(found);
    return &entries_[found].outcome;
  }

  /// Adds a transition that find() does not find. `frames` are the new ones, native ones first.
  void add(const TransitionKey& transition, const Outcome& outcome,
           std::span<const EnteredFrame> frames) {
    if ((entries_.size() + 1) * 2 > places_.size()) grow();
    const auto index = static_cast<std::uint32_t>(entries_.size());
    places_[place_of(transition)] = index;
    entries_.push_back({transition.event, transition.state, kNone, outcome});
    if (!outcome.enters_one) {
      entries_.back().outcome.entered = static_cast<std::uint32_t>(frames_.size());
      frames_.insert(frames_.end(), frames.begin(), frames.end());
    }
    follow(index);
  }

  /// Returns the new frames of an outcome that find() returned, unless it enters one.
  const EnteredFrame* frames(const Outcome& outcome) const {
    return frames_.data() + outcome.entered;
  }

  std::size_t bytes() const {
    return entries_.capacity() * sizeof(Entry) + frames_.capacity() * sizeof(EnteredFrame) +
           places_.size() * sizeof(std::uint32_t);
  }

 private:
  // One cache line.
  struct alignas(64) Entry {
    EventKey event;
    std::uint32_t state;
    std::uint32_t next;  // The entry that followed last time.
    Outcome outcome;

    bool is(const TransitionKey& transition) const {
      return state == transition.state && event == transition.event;
    }
  };
  static_assert(sizeof(Entry) == 64);

  void follow(std::uint32_t index) {
    if (last_ != kNone) entries_[last_].next = index;
    last_ = index;
  }

  // Returns the place of the transition, or the free one for it. Open addressing, at most half
  // full.
  std::size_t place_of(const TransitionKey& transition) const {
    const EventKey& event = transition.event;
    std::uint64_t hash = transition.state * 0x9E3779B97F4A7C15U;
    hash = (hash ^ event.id ^ std::uint64_t{event.line} << 32) * 0xFF51AFD7ED558CCDU;
    hash = (hash ^ event.return_address) * 0xC4CEB9FE1A85EC53U;
    hash = (hash ^ event.stack_pointer) * 0x9E3779B97F4A7C15U;
    std::size_t place = (hash >> 24) & (places_.size() - 1);
    while (places_[place] != kNone && !entries_[places_[place]].is(transition))
      place = (place + 1) & (places_.size() - 1);
    return place;
  }

  void grow() {
    constexpr std::size_t kSmallest = 2048;
    places_.assign(std::max(places_.size() * 2, kSmallest), kNone);
    for (std::uint32_t i = 0; i < entries_.size(); ++i)
      places_[place_of({entries_[i].state, entries_[i].event})] = i;
  }

  std::vector<Entry> entries_;         // By first occurrence.
  std::vector<EnteredFrame> frames_;   // Of these entries, in their order.
  std::vector<std::uint32_t> places_;  // Indices of entries by hash; kNone if free.
  std::uint32_t last_ = kNone;
};

}  // namespace optrace
