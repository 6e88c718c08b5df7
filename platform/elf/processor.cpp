#include "platform/elf/processor.h"

#include <elf.h>
#include <fmt/core.h>

namespace optrace {

std::string processor_name(std::uint16_t elf_machine) {
  switch (elf_machine) {
    case EM_386:
      return "32-bit x86";
    case EM_AARCH64:
      return "AArch64 (ARM)";
    case EM_ARM:
      return "32-bit ARM";
    case EM_PPC64:
      return "POWER";
    case EM_S390:
      return "IBM Z";
    case EM_RISCV:
      return "RISC-V";
    default:
      return fmt::format("ELF machine {}", elf_machine);
  }
}

}  // namespace optrace
