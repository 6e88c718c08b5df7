// ELF files, such as the libraries of a traced process: names, bounds of functions, relocations,
// and the code that is decoded to plan probes.
#include "platform/elf/branch_targets.h"
#include "platform/elf/dynamic_symbols.h"
#include "platform/elf/module_symbols.h"
#include "platform/elf/virtual_tables.h"
#include "tests/fuzz/fuzz_input.h"
#include "tracer/probes/probe_plan.h"

using namespace optrace;

namespace {

void read_all(const ModuleSymbols& module) {
  constexpr std::size_t kMax = 64;
  for (std::size_t i = 0; i < std::min(module.function_count(), kMax); ++i) {
    const NativeFunction function = module.function(i);
    fuzz::use_text(function.symbol);
    fuzz::use_text(module.source_file(function));
    fuzz::use(module.find(function.address + function.size / 2));
    fuzz::use(module.return_address_on_top(function.address + 1));
    fuzz::use(module.next_start(function.address));
    fuzz::use(module.last_start(function.address));
    fuzz::use_text(module.dynamic_symbol_of_slot(function.address));
    fuzz::use(module.definition(function.symbol));
  }
  module.for_each_name([](std::uint64_t, std::string_view name) { fuzz::use_text(name); });
  for (const std::string_view name : module.needed()) fuzz::use_text(name);
  for (const PolymorphicClass& one : read_virtual_tables(module)) {
    fuzz::use_text(one.name);
    for (const std::string_view base : one.bases) fuzz::use_text(base);
    for (const std::string_view function : one.functions) fuzz::use_text(function);
  }
  const auto branch_targets = BranchTargets::search(module);
  ProbePlanner planner(module, branch_targets);
  for (std::size_t i = 0; i < std::min(module.function_count(), kMax); ++i)
    planner.add(module.function(i).address);
  fuzz::use(planner.bytes("library.so"));
}

}  // namespace

OPTRACE_READER(elf) {
  const fuzz::InputFile file(fuzz::Input(data, size).rest());
  fuzz::refuses_or_reads([&] {
    const ModuleSymbols module(MappedFile(
        file.path(), size % 2 == 0 ? MappedFile::Trust::none : MappedFile::Trust::by_owner));
    read_all(module);
  });
  fuzz::refuses_or_reads([&] { fuzz::use(read_dynamic_imports(file.path())); });
  fuzz::refuses_or_reads([&] { fuzz::use(find_exports(file.path(), {"main", "malloc"})); });
  return 0;
}
