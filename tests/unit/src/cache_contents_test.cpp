#include "src/cache/cache_contents.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "indexer/sources/work_folder.h"
#include "platform/files/private_folder.h"
#include "src/cache/trace_history.h"
#include "tests/unit/environment_variable.h"

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::size_t entries_of(std::string_view folder) {
  const auto parts = optrace::list_cache();
  const auto part = std::ranges::find(parts, folder, &optrace::CachePart::folder);
  REQUIRE(part != parts.end());
  return part->entries.size();
}

}  // namespace

TEST_CASE("what is kept is found where it is written", "[cache_contents]") {
  const optrace::PrivateFolder cache;
  const optrace::test::EnvironmentVariable place("OPTRACE_CACHE_DIR", cache.path().c_str());
  (void)optrace::cached_trace_file("train");
  CHECK(entries_of("traces") == 1);
  const optrace::WorkFolder work(cache.path(), cache.path());
  CHECK(entries_of("source") == 1);
}

TEST_CASE("ages have a unit", "[cache_contents]") {
  CHECK(optrace::parse_age("30d") == 720h);
  CHECK(optrace::parse_age("2w") == 336h);
  CHECK(optrace::parse_age("0m") == 0s);
  for (const char* const wrong :
       {"", "d", "30", "-1d", "1.5h", "30days", "99999999999999999999d", "1 d"})
    CHECK_FALSE(optrace::parse_age(wrong));
}

TEST_CASE("a file that is being written is an entry, and a stranger is none", "[cache_contents]") {
  const optrace::PrivateFolder cache;
  const optrace::test::EnvironmentVariable place("OPTRACE_CACHE_DIR", cache.path().c_str());
  const fs::path plans = cache.path() / "plans";
  fs::create_directory(plans);
  const std::string hash(32, 'a');
  const std::vector<std::string> names = {hash + "-3.5.plan", hash + ".branch_targets.Xy12Za",
                                          hash + ".txt", "1-2-3-4-5-6.content", "notes.plan"};
  for (const std::string& name : names) std::ofstream(plans / name) << "x";
  fs::create_directory(plans / (hash + ".plan"));
  const auto parts = optrace::list_cache();
  const auto part = std::ranges::find(parts, "plans", &optrace::CachePart::folder);
  REQUIRE(part != parts.end());
  CHECK(part->entries.size() == 3);
  CHECK(part->foreign == 3);
  const optrace::CleanedPart cleaned = optrace::clean(*part);
  CHECK(cleaned.removed == 3);
  CHECK(cleaned.bytes == 3);
  CHECK(cleaned.kept.empty());
  CHECK(fs::exists(plans / "notes.plan"));
}
