#include "report/job/process_names.h"

#include <numeric>

#include <catch2/catch.hpp>

using optrace::process_names;

TEST_CASE("processes are listed in a sentence, consecutive ones as a range") {
  CHECK(process_names({}).empty());
  CHECK(process_names({0}) == "0");
  CHECK(process_names({0U, 1U, 2U}) == "0, 1, 2");
  CHECK(process_names({0U, 1U, 2U, 3U}) == "0 to 3");
  CHECK(process_names({5U, 7U, 8U, 9U, 10U, 3U}) == "5, 7 to 10, 3");
  std::vector<std::uint64_t> all(1024);
  std::iota(all.begin(), all.end(), 0U);
  CHECK(process_names(all) == "0 to 1023");
  std::vector<std::uint64_t> even;
  even.reserve(20);
  for (unsigned id = 0; id < 40; id += 2) even.push_back(id);
  CHECK(process_names(even) == "0, 2, 4, 6, 8, 10, 12, 14 and 12 more");
}

TEST_CASE("a range ends where numbers end") {
  CHECK(process_names({18446744073709551615U, 0U, 1U, 2U}) == "18446744073709551615, 0, 1, 2");
}
