#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// All of an event but its time, in numbers that mean the same throughout a recording.
struct EventKey {
  std::uint32_t id = 0;
  std::uint32_t line = 0;
  std::uint64_t stack_pointer = 0;
  std::uint64_t return_address = 0;
  bool operator==(const EventKey&) const = default;
};

/// What an event finds: the same state and the same event have the same outcome.
struct TransitionKey {
  std::uint32_t state = 0;
  EventKey event{};
  bool operator==(const TransitionKey&) const = default;
};

/// What an event makes of a state.
struct Outcome {
  std::uint32_t state = 0;
  std::uint32_t kept_native = 0;  ///< Frames that live on,
  std::uint32_t kept_python = 0;
  std::uint32_t native = 0;  ///< and how many there are then.
  std::uint32_t python = 0;
  std::uint32_t entered = kNone;  ///< The path of the one that is new, if it is native and alone.
  std::uint32_t rules =
      0;  ///< Which of the statistics count one more: bits by kCallTreeStatistics.
};

/// What a thread remembers of situations. Programs repeat themselves: what followed a situation the
/// last time is looked at first, and lies behind it in memory.
class TransitionCache {
 public:
  /// The situation's outcome, valid until the next call of another function; or none.
  const Outcome* find(const TransitionKey& situation) {
    if (last_ != kNone) {
      const std::uint32_t guess = entries_[last_].next;
      if (guess != kNone && entries_[guess].situation == situation) {
        last_ = guess;
        return &entries_[guess].outcome;
      }
    }
    if (places_.empty()) return nullptr;
    const std::uint32_t found = places_[place_of(situation)];
    if (found == kNone) return nullptr;
    follow(found);
    return &entries_[found].outcome;
  }

  /// For a situation that find does not know.
  void add(const TransitionKey& situation, const Outcome& outcome) {
    if ((entries_.size() + 1) * 2 > places_.size()) grow();
    const auto index = static_cast<std::uint32_t>(entries_.size());
    places_[place_of(situation)] = index;
    entries_.push_back({situation, outcome});
    follow(index);
  }

  std::size_t bytes() const {
    return entries_.capacity() * sizeof(Entry) + places_.size() * sizeof(std::uint32_t);
  }

 private:
  struct alignas(64) Entry {
    TransitionKey situation;
    Outcome outcome;
    std::uint32_t next = kNone;  // What came next the last time.
  };
  static_assert(sizeof(Entry) == 128 || sizeof(Entry) == 64);

  void follow(std::uint32_t index) {
    if (last_ != kNone) entries_[last_].next = index;
    last_ = index;
  }

  // Where the situation is, or would be: open addressing, half full at most.
  std::size_t place_of(const TransitionKey& situation) const {
    const EventKey& event = situation.event;
    std::uint64_t hash = situation.state * 0x9E3779B97F4A7C15U;
    hash = (hash ^ event.id ^ std::uint64_t{event.line} << 32) * 0xFF51AFD7ED558CCDU;
    hash = (hash ^ event.return_address) * 0xC4CEB9FE1A85EC53U;
    hash = (hash ^ event.stack_pointer) * 0x9E3779B97F4A7C15U;
    std::size_t place = (hash >> 24) & (places_.size() - 1);
    while (places_[place] != kNone && !(entries_[places_[place]].situation == situation))
      place = (place + 1) & (places_.size() - 1);
    return place;
  }

  void grow() {
    constexpr std::size_t kSmallest = 2048;
    places_.assign(std::max(places_.size() * 2, kSmallest), kNone);
    for (std::uint32_t i = 0; i < entries_.size(); ++i)
      places_[place_of(entries_[i].situation)] = i;
  }

  std::vector<Entry> entries_;         // By first occurrence.
  std::vector<std::uint32_t> places_;  // By hash: indices of entries, or kNone.
  std::uint32_t last_ = kNone;
};

}  // namespace optrace
