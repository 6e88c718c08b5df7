#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// How control leaves a function other than by calls and returns. The call tree uses it to tell a
/// tail call (same stack pointer and return address as the caller's own entry) from a coincidence.
struct FunctionJumps {
  bool enters_itself = false;                      ///< A branch to its own entry.
  bool jumps_indirectly = false;                   ///< A tail call through a register or memory.
  std::vector<std::uint64_t> tail_calls;           ///< Entries in the same module that it jumps to.
  std::vector<std::string_view> named_tail_calls;  ///< Dynamic symbols that it jumps to (PLT, GOT).
};

/// Disassembles `function` and the `.cold` parts that it jumps to. A jump counts as a tail call
/// unless call frame information rules it out, which excludes the jump of a switch. The returned
/// strings live as long as `module`.
FunctionJumps find_jumps(const ModuleSymbols& module, const NativeFunction& function);

/// Returns the address of the slot that the PLT entry at `address` jumps through, or nullopt if
/// there is no such entry: [endbr64] [bnd] jmp *slot(%rip), in at most kMaxStubSize bytes.
std::optional<std::uint64_t> slot_of_stub(const ModuleSymbols& module, std::uint64_t address);
constexpr std::uint64_t kMaxStubSize = 16;

/// The target of a call instruction: an entry in the same module, or a dynamic symbol (PLT, GOT).
struct CallTarget {
  std::uint64_t address = 0;  ///< As linked.
  std::string_view name;      ///< If empty, `address` is the target.
};

/// Decodes the call that may end at `return_address` (as linked). The bytes there could also be the
/// end of a longer instruction: compare the result with the function that was entered. Returns
/// nullopt for a call through a register, or through memory that no dynamic symbol fills.
std::optional<CallTarget> call_target_before(const ModuleSymbols& module,
                                             std::uint64_t return_address);

}  // namespace optrace
