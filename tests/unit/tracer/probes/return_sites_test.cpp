#include "tracer/probes/return_sites.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/elf/branch_targets.h"
#include "platform/elf/module_symbols.h"
#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"
#include "tracer/probes/probe_plan.h"

using namespace optrace;
using namespace optrace::test;

namespace {

/// Returns the return sites of all functions of a module that have a result.
std::vector<ReturnSite> all_sites(const ModuleSymbols& module, const ResultOf& result_of) {
  std::vector<NamedAddress> functions;
  std::vector<NamedAddress> slots;
  module.for_each_name(
      [&](std::uint64_t address, std::string_view name) { functions.push_back({address, name}); });
  module.for_each_slot(
      [&](std::uint64_t address, std::string_view name) { slots.push_back({address, name}); });
  std::ranges::stable_sort(functions, {}, &NamedAddress::address);
  return find_return_sites(module, std::move(functions), std::move(slots), result_of);
}

}  // namespace

TEST_CASE("return sites are behind the calls of the wanted functions", "[return_sites]") {
  const ModuleSymbols module{std::filesystem::path(OPTRACE_PROBE_TARGETS)};
  const std::uint64_t caller = address_of(module, "target_call_first");
  const ResultOf of_plain = [](std::string_view symbol) {
    return RecordedResult{.bytes = symbol == "target_plain" ? 4U : 0U};
  };
  const std::vector<ReturnSite> sites = all_sites(module, of_plain);
  const auto site = std::ranges::find(sites, caller + 5, &ReturnSite::address);
  REQUIRE(site != sites.end());
  CHECK(site->result == RecordedResult{.bytes = 4});
  // A jump to the function is no call.
  const std::uint64_t jump = address_of(module, "target_jump_first");
  CHECK(std::ranges::find(sites, jump + 5, &ReturnSite::address) == sites.end());
  CHECK(all_sites(module, [](std::string_view) { return RecordedResult{}; }).empty());

  const BranchTargets no_targets;
  ProbePlanner planner(module, no_targets);
  planner.add_return(*site);
  planner.add_return(*site);
  CHECK(planner.probe_count() == 1);
}

TEST_CASE("calls that name no function count if their result is tested", "[return_sites]") {
  constexpr std::string_view kCalls = R"(
        .intel_syntax noprefix
        .text
        .type wanted, @function
wanted: ret
        .size wanted, .-wanted
        .type calls, @function
calls:  call rax
        test al, al
        call r12
        test al, al
        call [rbx]
        test al, al
        call [rax+24]
        test al, al
        call [rax+1024]
        test al, al
        call [rbp+rax*8-8]
        test al, al
        call [rsp+1024]
        test al, al
        call [rip+pointer]  # A slot names its function.
        test al, al
        call rax
        mov eax, edi
        jmp rax
        test al, al
        mov al, 0xFF
        mov cl, 0xD0
        test al, al
        ret
        .size calls, .-calls
        .data
pointer: .quad wanted
        .section .note.GNU-stack,"",@progbits
)";
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "calls.s", kCalls));
  const std::vector<ReturnSite> sites = all_sites(module, [](std::string_view symbol) {
    return RecordedResult{.bytes = symbol == "wanted" ? 1U : 0U};
  });
  const std::uint64_t calls = address_of(module, "calls");
  std::vector<std::uint64_t> found;
  for (const ReturnSite& site : sites) {
    found.push_back(site.address - calls);
    CHECK(site.result.bytes == 1);
  }
  CHECK(found == std::vector<std::uint64_t>{2, 7, 11, 16, 24, 30, 39});
}

TEST_CASE("some results count only if the code after the call tests them", "[return_sites]") {
  constexpr std::string_view kCalls = R"(
        .intel_syntax noprefix
        .text
        .type wanted, @function
wanted: ret
        .size wanted, .-wanted
        .type tested, @function
tested: call wanted
        test rax, rax
        call wanted
        mov rbx, rax
        mov rdi, [rsp+8]
        cmp rbx, 3
        call wanted
        mov r12d, eax
        cmp [rsp], r12d
        ret
        .size tested, .-tested
        .type untested, @function
untested: call wanted
        mov rax, [rdi]  # Overwrites the result.
        test rax, rax
        call wanted
        mov rdi, rax
        call wanted
        cmp qword ptr [rax], 0  # What it points to.
        je untested
        test rax, rax  # After a branch.
        call wanted
        ret
        .size untested, .-untested
        .section .note.GNU-stack,"",@progbits
)";
  const PrivateFolder folder;
  const ModuleSymbols module(build_library(folder.path(), "calls.s", kCalls));
  constexpr RecordedResult kPointer{.bytes = 8, .is_pointer = true, .if_tested = true};
  const auto sites_of = [&](const RecordedResult& result) {
    return all_sites(module, [&](std::string_view symbol) {
      return symbol == "wanted" ? result : RecordedResult{};
    });
  };
  const std::vector<ReturnSite> sites = sites_of(kPointer);
  CHECK(sites.size() == 3);
  for (const ReturnSite& site : sites) {
    CHECK(site.address < address_of(module, "untested"));
    CHECK(site.result == kPointer);
  }
  CHECK(sites_of({.bytes = 8}).size() == 7);
}

TEST_CASE("calls through stubs and slots name the function", "[return_sites]") {
  constexpr std::string_view kCalls = R"(
        .intel_syntax noprefix
        .text
        .globl calls
        .type calls, @function
calls:  call wanted@PLT
        nop
        call other@PLT
        nop
        call [rip+wanted@GOTPCREL]
        nop
        call [rip+other@GOTPCREL]
        nop
        call of_both
        nop
        ret
        .size calls, .-calls
        .type of_both, @function
        .type unwanted, @function
unwanted:
of_both: ret
        .size of_both, 1
        .size unwanted, 1
        .section .note.GNU-stack,"",@progbits
)";
  const PrivateFolder folder;
  for (const char* const flag : {"-Wl,-z,ibtplt", "-Wl,-z,lazy"}) {
    const ModuleSymbols module(build_library(folder.path(), "calls.s", kCalls, {flag}));
    const std::vector<ReturnSite> sites = all_sites(module, [](std::string_view symbol) {
      return RecordedResult{.bytes = symbol == "wanted" || symbol == "of_both" ? 4U : 0U};
    });
    const std::uint64_t calls = address_of(module, "calls");
    std::vector<std::uint64_t> found(sites.size());
    std::ranges::transform(sites, found.begin(),
                           [calls](const ReturnSite& site) { return site.address - calls; });
    CHECK(found == std::vector<std::uint64_t>{5, 18, 31});
  }
}
