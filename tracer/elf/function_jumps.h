#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tracer/elf/module_symbols.h"

namespace optrace {

/// How control leaves a function other than by calls and returns: what the tree needs to tell a
/// tail call (same stack pointer and return address as the caller's own entry) from chance.
struct FunctionJumps {
  bool enters_itself = false;                      ///< A branch to its own entry.
  bool jumps_indirectly = false;                   ///< A tail call through a register or memory.
  std::vector<std::uint64_t> tail_calls;           ///< Entries in the same module that it jumps to.
  std::vector<std::string_view> named_tail_calls;  ///< Dynamic symbols that it jumps to (PLT, GOT).
};

/// Disassembles `function` and the `.cold` parts that it jumps to. A jump counts as a tail call
/// only where call frame information does not rule it out, so the jump of a switch does not.
/// Texts live as long as `module`.
FunctionJumps find_jumps(const ModuleSymbols& module, const NativeFunction& function);

/// What a call instruction names: an entry in the same module, or a dynamic symbol (PLT, GOT).
struct CallTarget {
  std::uint64_t address = 0;  ///< As linked.
  std::string_view name;      ///< Empty: `address` counts.
};

/// What the call just before `return_address` (as linked) may be to, going by the bytes there,
/// which could also be the end of a longer instruction: compare it with what is known to have been
/// entered. Nothing for a call through a register or memory that no dynamic symbol fills.
std::optional<CallTarget> call_target_before(const ModuleSymbols& module,
                                             std::uint64_t return_address);

}  // namespace optrace
