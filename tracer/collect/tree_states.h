#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "tracer/calltree/call_tree_rules.h"
#include "tracer/collect/transition_cache.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The states that a thread's call tree was in, numbered, with the outcomes of events in them.
class TreeStates {
 public:
  /// The number of states that are not kept, because they have too many frames or because the cache
  /// is bypassed.
  static constexpr std::uint32_t kUnnumbered = kNone;

  /// Number 0 is the initial state.
  TreeStates();

  /// Returns the number of an equal state, adding it if necessary, or kUnnumbered.
  std::uint32_t number_of(const CallTreeRules::State& state);
  const CallTreeRules::State& operator[](std::uint32_t number) const { return states_[number]; }

  /// Returns the outcome of an event, valid until the next add(), or null.
  const Outcome* find(const TransitionKey& transition) {
    const Outcome* const found = outcomes_.find(transition);
    if (found != nullptr) ++found_;
    return found;
  }
  /// As in TransitionCache.
  const EnteredFrame* frames(const Outcome& outcome) const { return outcomes_.frames(outcome); }
  /// Adds a transition that find() does not find, as TransitionCache does.
  void add(const TransitionKey& transition, const Outcome& outcome,
           std::span<const EnteredFrame> frames) {
    outcomes_.add(transition, outcome, frames);
  }
  /// Counts an event without a known outcome, and decides whether the next events bypass the cache.
  /// Code that runs once (imports) never repeats a transition.
  void count_miss();

  /// Drops everything but the state `number`, which may be kUnnumbered. Returns its new number.
  std::uint32_t keep_only(std::uint32_t number);

  /// Returns the size of the states and outcomes.
  std::size_t bytes() const { return state_bytes_ + outcomes_.bytes(); }

 private:
  // If more than half of kJudged events had no cached outcome, the next events bypass the cache:
  // kMinRest at first, then twice as many each time, up to kMaxRest.
  static constexpr std::uint32_t kJudged = 512;
  static constexpr std::uint32_t kMinRest = 2048;
  static constexpr std::uint32_t kMaxRest = 65'536;

  std::vector<CallTreeRules::State> states_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> numbers_;  // By hash of the state.
  std::size_t state_bytes_ = 0;
  TransitionCache outcomes_;
  std::uint32_t found_ = 0, missed_ = 0;  // Recent events with and without a known outcome.
  std::uint32_t rest_ = 0;                // Events that bypass the cache.
  std::uint32_t next_rest_ = kMinRest;    // The next value of `rest_`.
};

}  // namespace optrace
