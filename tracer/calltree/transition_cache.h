#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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
  return raw.id < recording::kFirstPythonEvent || of_python(raw) || recording::is_caller(raw.id);
}

/// A state and an event in it. Equal keys have equal outcomes.
struct TransitionKey {
  std::uint32_t state = 0;
  EventKey event{};
  bool operator==(const TransitionKey&) const = default;
};

/// The effect of an event on a state.
struct Outcome {
  std::uint32_t state = 0;
  std::uint32_t kept_native = 0;  ///< Native frames that stay live.
  std::uint32_t kept_python = 0;  ///< Python frames that stay live.
  std::uint32_t native = 0;       ///< Native frames afterwards.
  std::uint32_t python = 0;       ///< Python frames afterwards.
  std::uint32_t entered = kNone;  ///< Path of the new frame, if there is one only and it is native.
  /// Statistics to increment: bits in the order of kCallTreeStatistics.
  std::uint32_t rules = 0;
};

/// Caches the outcomes of a thread's transitions. Programs repeat themselves: the transition that
/// followed last time is tried first, and its entry is next in memory.
class TransitionCache {
 public:
  /// Returns the transition's outcome, valid until the next add(), or null.
  const Outcome* find(const TransitionKey& transition) {
    if (last_ != kNone) {
      const std::uint32_t guess = entries_[last_].next;
      if (guess != kNone && entries_[guess].transition == transition) {
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

  /// Adds a transition that find() does not find.
  void add(const TransitionKey& transition, const Outcome& outcome) {
    if ((entries_.size() + 1) * 2 > places_.size()) grow();
    const auto index = static_cast<std::uint32_t>(entries_.size());
    places_[place_of(transition)] = index;
    entries_.push_back({transition, outcome});
    follow(index);
  }

  std::size_t bytes() const {
    return entries_.capacity() * sizeof(Entry) + places_.size() * sizeof(std::uint32_t);
  }

 private:
  struct alignas(64) Entry {
    TransitionKey transition;
    Outcome outcome;
    std::uint32_t next = kNone;  // The entry that followed last time.
  };
  static_assert(sizeof(Entry) == 128 || sizeof(Entry) == 64);

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
    while (places_[place] != kNone && !(entries_[places_[place]].transition == transition))
      place = (place + 1) & (places_.size() - 1);
    return place;
  }

  void grow() {
    constexpr std::size_t kSmallest = 2048;
    places_.assign(std::max(places_.size() * 2, kSmallest), kNone);
    for (std::uint32_t i = 0; i < entries_.size(); ++i)
      places_[place_of(entries_[i].transition)] = i;
  }

  std::vector<Entry> entries_;         // By first occurrence.
  std::vector<std::uint32_t> places_;  // Indices of entries by hash; kNone if free.
  std::uint32_t last_ = kNone;
};

}  // namespace optrace
