#pragma once

#include <cstdint>
#include <string>

namespace optrace {

/// Returns the common name of the processor with this e_machine, e.g. "AArch64 (ARM)", or "ELF
/// machine 4711" for an unlisted one.
std::string processor_name(std::uint16_t elf_machine);

}  // namespace optrace
