#pragma once

#include <cstdint>
#include <string>

namespace optrace {

/// The processor that an ELF file's e_machine stands for, as its users call it: "AArch64 (ARM)";
/// "ELF machine 4711" for one that is not known here.
std::string processor_name(std::uint16_t elf_machine);

}  // namespace optrace
