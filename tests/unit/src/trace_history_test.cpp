#include "src/cache/trace_history.h"

#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "tests/unit/environment_variable.h"

using optrace::cached_trace_file;
namespace fs = std::filesystem;

namespace {

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("the traces of the last programs are kept", "[kept_traces]") {
  const optrace::PrivateFolder cache;
  const optrace::test::EnvironmentVariable place("OPTRACE_CACHE_DIR", cache.path().c_str());
  const fs::path traces = cache.path() / "traces";
  for (int day = 10; day < 40; ++day) {
    const fs::path folder = traces / ("202001" + std::to_string(day) + "-120000-7");
    fs::create_directories(folder);
    std::ofstream(folder / "train.trace") << "x";
  }
  fs::create_directory(traces / "notes");
  const fs::path elsewhere = cache.path() / "elsewhere";
  fs::create_directory(elsewhere);
  fs::create_directory_symlink(elsewhere, traces / "20190101-000000-1");

  const fs::path file = cached_trace_file("train");
  CHECK(file.filename() == "train.trace");
  CHECK(fs::status(file.parent_path()).permissions() == fs::perms::owner_all);
  CHECK(entries(traces) == optrace::kCachedPrograms + 2);
  CHECK(fs::exists(traces / "20200139-120000-7"));
  CHECK_FALSE(fs::exists(traces / "20200120-120000-7"));
  CHECK(fs::exists(traces / "notes"));
  CHECK(fs::exists(elsewhere));
}

TEST_CASE("the name of a kept trace is a plain word", "[kept_traces]") {
  const optrace::PrivateFolder cache;
  const optrace::test::EnvironmentVariable place("OPTRACE_CACHE_DIR", cache.path().c_str());
  const auto name = [](const std::string& text) {
    return cached_trace_file(text).filename().string();
  };
  CHECK(name("a b;$(c)/d\n") == "a_b___c__d_.trace");
  CHECK(name("--x") == "x.trace");
  CHECK(name("..") == "program.trace");
  CHECK(name("") == "program.trace");
  CHECK(name(std::string(300, 'x')) == std::string(100, 'x') + ".trace");
}

TEST_CASE("a cache that can't be used is an error with a remedy", "[kept_traces]") {
  const optrace::test::EnvironmentVariable place("OPTRACE_CACHE_DIR", "/proc/cache");
  CHECK_THROWS_WITH(cached_trace_file("train"), Catch::Contains("/proc/cache"));
}
