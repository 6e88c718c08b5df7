#pragma once

#include <cstdint>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// Returns true if the code at a return address (as linked) tests or compares the result of the
/// call, or a register to which it was copied, before the next branch or call and within a few
/// instructions.
bool tests_result(const ModuleSymbols& module, std::uint64_t return_address);

}  // namespace optrace
