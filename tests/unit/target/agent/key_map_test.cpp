#include "target/agent/process/key_map.h"

#include <random>
#include <unordered_map>

#include <catch2/catch.hpp>

using optrace::agent::IdEntry;
using optrace::agent::IdMap;

namespace {

bool has(const IdMap& map, std::uint64_t key, std::uint32_t id) {
  const IdEntry* const entry = map.find(key);
  return entry != nullptr && entry->key == key && entry->id == id && entry->check == id + 1;
}

}  // namespace

TEST_CASE("a map of ids has what was put into it and not taken out", "[key_map]") {
  IdMap map;
  CHECK(map.find(1) == nullptr);
  map.erase(1);
  std::unordered_map<std::uint64_t, std::uint32_t> expected;
  std::mt19937_64 random(1);
  // Addresses close to each other, so that many have the same hash.
  const auto some_key = [&] { return 0x7f00'0000'0000 + random() % 20'000 * 16; };
  for (std::uint32_t i = 0; i < 300'000; ++i) {
    const std::uint64_t key = some_key();
    if (random() % 2 == 0) {
      REQUIRE(map.set({key, i, i + 1}));
      expected[key] = i;
    } else {
      map.erase(key);
      expected.erase(key);
    }
    if (map.size() != expected.size()) FAIL("the sizes differ");
  }
  bool equal = true;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t key = 0x7f00'0000'0000 + i * 16;
    const auto known = expected.find(key);
    equal = equal &&
            (known == expected.end() ? map.find(key) == nullptr : has(map, key, known->second));
  }
  CHECK(equal);
  map.release();
  CHECK(map.size() == 0);
  CHECK(map.find(expected.begin()->first) == nullptr);
  CHECK(map.set({5, 1, 2}));
  CHECK(has(map, 5, 1));
  map.release();
}
