#include "tracer/collect/tree_states.h"

#include <algorithm>
#include <utility>

#include <xxhash.h>

namespace optrace {
namespace {

// States with more frames are not kept: each takes space for all its frames.
constexpr std::size_t kMaxDepth = 500;

std::uint64_t hash_of(const CallTreeRules::State& state) {
  std::uint64_t hash = XXH3_64bits(&state.outer_builtin, sizeof state.outer_builtin);
  hash ^= state.outer_line;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0xFF51AFD7ED558CCDU;
    hash ^= hash >> 32;
  };
  for (const CallTreeRules::LiveFrame& frame : state.native) {
    mix(frame.node | std::uint64_t{frame.function} << 32);
    mix(frame.stack_pointer);
    mix(frame.return_address);
    mix(frame.innermost_python | std::uint64_t{frame.called} << 32);
    mix((frame.initial ? 1U : 0U) | (frame.python_ended ? 2U : 0U) | (frame.doubtful ? 4U : 0U) |
        (frame.op_begun ? 8U : 0U) | (frame.left ? 16U : 0U));
  }
  for (const CallTreeRules::LivePython& frame : state.python) {
    mix(frame.node | std::uint64_t{frame.what} << 32);
    mix(frame.height | std::uint64_t{frame.in_loop} << 63);
    mix(frame.outside | std::uint64_t{frame.builtin.what} << 32);
    mix(frame.builtin.line | std::uint64_t{frame.step} << 32);
    mix(frame.place);
    mix(frame.line);
  }
  mix(state.asserted * 2 + (state.at_beginning ? 1 : 0));
  mix(state.ended_node | state.ended_height << 32);
  return hash;
}

}  // namespace

TreeStates::TreeStates() {
  states_.emplace_back();
  numbers_.emplace(hash_of(states_[0]), 0);
}

std::uint32_t TreeStates::number_of(const CallTreeRules::State& state) {
  if (rest_ != 0 || state.native.size() + state.python.size() > kMaxDepth) return kUnnumbered;
  const std::uint64_t hash = hash_of(state);
  const auto [first, last] = numbers_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (states_[it->second] == state) return it->second;
  constexpr std::size_t kNumbered = 64;  // Size of an entry of `numbers_` and its bucket.
  state_bytes_ += sizeof(CallTreeRules::State) + kNumbered +
                  state.native.size() * sizeof(CallTreeRules::LiveFrame) +
                  state.python.size() * sizeof(CallTreeRules::LivePython);
  const auto number = static_cast<std::uint32_t>(states_.size());
  states_.push_back(state);
  numbers_.emplace(hash, number);
  return number;
}

void TreeStates::count_miss() {
  if (rest_ != 0) {
    --rest_;
    return;
  }
  ++missed_;
  if (found_ + missed_ < kJudged) return;
  if (missed_ > found_) {
    rest_ = next_rest_;
    next_rest_ = std::min(next_rest_ * 2, kMaxRest);
  } else {
    next_rest_ = kMinRest;
  }
  found_ = missed_ = 0;
}

std::uint32_t TreeStates::keep_only(std::uint32_t number) {
  outcomes_ = {};
  numbers_.clear();
  state_bytes_ = 0;
  std::vector<CallTreeRules::State> kept;
  if (number != kUnnumbered) {
    kept.push_back(std::move(states_[number]));
    numbers_.emplace(hash_of(kept[0]), 0);
    number = 0;
  }
  states_ = std::move(kept);
  return number;
}

}  // namespace optrace
