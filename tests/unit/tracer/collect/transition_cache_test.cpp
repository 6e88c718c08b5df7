#include "tracer/collect/transition_cache.h"

#include <map>
#include <random>
#include <tuple>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t>;

Key key_of(const TransitionKey& transition) {
  const EventKey& event = transition.event;
  return {transition.state, event.id, event.line, event.stack_pointer, event.return_address};
}

}  // namespace

TEST_CASE("a transition is remembered as it was, whatever came before it", "[transition_cache]") {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  TransitionCache memory;
  std::map<Key, std::uint32_t> expected;
  std::uint32_t state = 0;
  std::size_t found = 0;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    // Mostly a cycle of events in which each has one successor; now and then a random transition.
    const bool strays = below(10) == 0;
    const TransitionKey transition{
        strays ? below(50) : state,
        {.id = i % 100, .line = strays ? below(3) : 0, .stack_pointer = 8}};
    const Outcome* const known = memory.find(transition);
    const auto place = expected.find(key_of(transition));
    REQUIRE((known != nullptr) == (place != expected.end()));
    if (known != nullptr) {
      ++found;
      REQUIRE(known->state == place->second);
      state = known->state;
    } else {
      state = below(50);
      expected.emplace(key_of(transition), state);
      memory.add(transition, {.state = state}, {});
    }
  }
  CHECK(expected.size() > 5'000);
  CHECK(found > 100'000);
}

TEST_CASE("transitions that differ in one number only are different", "[transition_cache]") {
  const TransitionKey base{1, {2, 3, 4, 5}};
  TransitionCache memory;
  CHECK(memory.find(base) == nullptr);
  memory.add(base, {.state = 9}, {});
  for (const TransitionKey& other : {TransitionKey{0, {2, 3, 4, 5}}, TransitionKey{1, {0, 3, 4, 5}},
                                     TransitionKey{1, {2, 0, 4, 5}}, TransitionKey{1, {2, 3, 0, 5}},
                                     TransitionKey{1, {2, 3, 4, 0}}})
    CHECK(memory.find(other) == nullptr);
  REQUIRE(memory.find(base) != nullptr);
  CHECK(memory.find(base)->state == 9);
}
