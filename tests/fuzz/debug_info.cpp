// Debug info (DWARF) of the libraries of a traced process. The input is an ELF file, whose build-id
// is taken as the one that was traced.
#include "platform/elf/debug_info.h"

#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

OPTRACE_READER(debug_info) {
  const fuzz::InputFile file(fuzz::Input(data, size).rest());
  fuzz::refuses_or_reads([&] {
    const ModuleSymbols module(file.path());
    const auto info = DebugInfo::read(MappedFile(file.path()), module.build_id());
    if (info == nullptr) return;
    constexpr std::size_t kMax = 64;
    constexpr std::uint64_t kMaxCode = 256;
    for (std::size_t i = 0; i < std::min(module.function_count(), kMax); ++i) {
      const NativeFunction function = module.function(i);
      if (const auto place = info->definition_at(function.address)) fuzz::use_text(place->file);
      for (std::uint64_t at = 1; at <= std::min(function.size, kMaxCode); at += 3) {
        const DebugCall call = info->call_before(function.address + at);
        for (const InlinedFunction& inlined : call.inlined) {
          fuzz::use_text(inlined.symbol);
          fuzz::use_text(inlined.name);
          if (inlined.definition) fuzz::use_text(inlined.definition->file);
        }
      }
    }
  });
  return 0;
}
