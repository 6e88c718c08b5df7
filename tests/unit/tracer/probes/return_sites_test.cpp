#include "tracer/probes/return_sites.h"

#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "tracer/elf/branch_targets.h"
#include "tracer/elf/module_symbols.h"
#include "tracer/probes/probe_plan.h"

using namespace optrace;

namespace {

std::uint64_t address_of(const ModuleSymbols& module, std::string_view symbol) {
  std::uint64_t found = 0;
  module.for_each_name([&](std::uint64_t address, std::string_view name) {
    if (name == symbol) found = address;
  });
  REQUIRE(found != 0);
  return found;
}

}  // namespace

TEST_CASE("return sites are behind the calls of the wanted functions", "[return_sites]") {
  const ModuleSymbols module{std::filesystem::path(OPTRACE_PROBE_TARGETS)};
  const std::uint64_t caller = address_of(module, "target_call_first");
  const ReturnedBytes of_plain = [](std::string_view symbol) {
    return symbol == "target_plain" ? 4U : 0U;
  };
  const std::vector<ReturnSite> sites = find_return_sites(module, of_plain);
  const auto site = std::ranges::find(sites, caller + 5, &ReturnSite::address);
  REQUIRE(site != sites.end());
  CHECK(site->bytes == 4);
  // A jump to the function is no call.
  const std::uint64_t jump = address_of(module, "target_jump_first");
  CHECK(std::ranges::find(sites, jump + 5, &ReturnSite::address) == sites.end());
  CHECK(find_return_sites(module, [](std::string_view) { return 0U; }).empty());

  const BranchTargets no_targets;
  ProbePlanner planner(module, no_targets);
  planner.add_return(*site);
  planner.add_return(*site);
  CHECK(planner.probe_count() == 1);
}
