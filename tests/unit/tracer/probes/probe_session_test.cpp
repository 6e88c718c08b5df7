#include "tracer/probes/probe_session.h"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "tests/unit/small_library.h"
#include "tests/unit/tracer/traced_library.h"
#include "tracer/probes/probe_plan.h"

using namespace optrace;
using namespace optrace::test;

namespace {

std::size_t probes_in(const std::vector<std::filesystem::path>& plans) {
  std::size_t count = 0;
  for (const auto& path : plans) count += ProbePlan::open(path).value().probes().size();
  return count;
}

std::set<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  std::error_code error;  // The folder may be missing.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    files.insert(entry.path());
  return files;
}

}  // namespace

TEST_CASE("what is kept goes by a library's bytes and owner, not by its build-id") {
  // Internal linkage: a stripped copy has no symbol for the function.
  const TracedLibrary traced(
      "namespace at::native { __attribute__((noinline)) static int hidden(int x) "
      "{ asm(\"\"); return x + 1; }\n"
      "int relu(int x) { return hidden(x) + 1; } }");
  const auto stripped = stripped_copy(traced.library);
  REQUIRE(ModuleSymbols(stripped).build_id() == traced.module->build_id());
  const auto plans_of = [&](const std::filesystem::path& library, const char* scratch) {
    return ProbeSession(traced.scratch(scratch)).initial_plans({library});
  };
  const auto cache = traced.folder.path() / "cache";
  // A file that was just written may change unnoticed, so nothing is cached.
  const std::size_t whole = probes_in(plans_of(traced.library, "new"));
  CHECK(files_below(cache).size() <= 1);
  wait_until_settled();

  const std::size_t few = probes_in(plans_of(stripped, "first"));
  CHECK(few < whole);
  CHECK(probes_in(plans_of(traced.library, "second")) == whole);
  CHECK(probes_in(plans_of(stripped, "third")) == few);
  CHECK(plans_of(traced.library, "fourth").at(0).parent_path() == cache / "plans");

  // The same bytes are recognised in a file with another path and other timestamps.
  const auto copy = traced.folder.path() / "copy.so";
  std::filesystem::copy(traced.library, copy);
  wait_until_settled();
  CHECK(plans_of(copy, "fifth") == plans_of(traced.library, "sixth"));

  if (::geteuid() != 0) {
    WARN("skipped: only root can give files to another user");
    return;
  }
  const auto before = files_below(cache);
  REQUIRE(::chown(copy.c_str(), 65534, 65534) == 0);
  wait_until_settled();
  const auto foreign = plans_of(copy, "foreign");
  CHECK(foreign.at(0).parent_path() == traced.folder.path() / "foreign");
  CHECK(probes_in(foreign) == whole);
  CHECK(files_below(cache) == before);
  // The same library, as for a process in another mount namespace.
  const auto root = std::filesystem::path("/proc") / std::to_string(::getpid()) / "root";
  ProbeSession session(traced.scratch("inside"));
  session.modules().look_below(root);
  const auto inside = session.initial_plans({traced.library});
  CHECK(inside.at(0).parent_path() == traced.folder.path() / "inside");
}

TEST_CASE("a kept plan that was spoiled is made again") {
  const TracedLibrary traced;
  wait_until_settled();
  const auto plan_path = [&] {
    return ProbeSession(traced.scratch("scratch")).initial_plans({traced.library}).at(0);
  };
  const auto path = plan_path();
  const std::string whole = read_bytes(path);
  CHECK(path.string().find("cache") != std::string::npos);
  write_bytes(path, whole.substr(0, whole.size() - 5));
  CHECK(plan_path() == path);
  CHECK(read_bytes(path) == whole);
}

TEST_CASE("without a cache plans go to the scratch folder") {
  const TracedLibrary traced;
  write_bytes(traced.folder.path() / "file", "no folder");
  ::setenv("OPTRACE_CACHE_DIR", (traced.folder.path() / "file").c_str(), 1);
  ProbeSession session(traced.scratch("scratch"));
  const auto plans = session.initial_plans({traced.library});
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].parent_path() == traced.folder.path() / "scratch");
}
