// The part of ModuleSymbols that reads what the dynamic linker writes into a module.

#include <algorithm>

#include <elf.h>

#include "platform/elf/elf_text.h"
#include "platform/elf/module_symbols.h"
#include "platform/elf/read_at.h"

namespace optrace {

template <typename Visit>
void ModuleSymbols::for_each_slot_relocation(Visit visit) const {
  for (const Relocations& table : relocations_) {
    for (std::uint64_t at = 0;; at += sizeof(Elf64_Rela)) {
      const auto entry = read_at<Elf64_Rela>(table.entries, at);
      if (!entry) break;
      const auto type = ELF64_R_TYPE(entry->r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      const auto named =
          read_at<Elf64_Sym>(table.symbols, ELF64_R_SYM(entry->r_info) * sizeof(Elf64_Sym));
      if (!named || named->st_name >= table.names.size()) continue;
      visit(*entry, *named, elf_text(table.names, named->st_name, kMaxNameLength));
    }
  }
}

const std::vector<NamedAddress>& ModuleSymbols::slots() const {
  if (!slots_) {
    slots_.emplace();
    for_each_slot_relocation([&](const Elf64_Rela& entry, const Elf64_Sym&, std::string_view name) {
      slots_->push_back({entry.r_offset, name});
    });
    std::ranges::stable_sort(*slots_, {}, &NamedAddress::address);
    const auto repeated = std::ranges::unique(*slots_, {}, &NamedAddress::address);
    slots_->erase(repeated.begin(), repeated.end());
  }
  return *slots_;
}

std::string_view ModuleSymbols::dynamic_symbol_of_slot(std::uint64_t address) const {
  const auto slot = std::ranges::lower_bound(slots(), address, {}, &NamedAddress::address);
  return slot == slots().end() || slot->address != address ? std::string_view() : slot->symbol;
}

void ModuleSymbols::for_each_data_pointer(
    const std::function<void(const DataPointer&)>& visit) const {
  for (const Relocations& table : relocations_) {
    for (std::uint64_t at = 0;; at += sizeof(Elf64_Rela)) {
      const auto entry = read_at<Elf64_Rela>(table.entries, at);
      if (!entry) break;
      DataPointer pointer{.place = entry->r_offset,
                          .target = static_cast<std::uint64_t>(entry->r_addend),
                          .symbol = {}};
      if (ELF64_R_TYPE(entry->r_info) == R_X86_64_64) {
        const auto named =
            read_at<Elf64_Sym>(table.symbols, ELF64_R_SYM(entry->r_info) * sizeof(Elf64_Sym));
        if (!named) continue;
        pointer.symbol = elf_text(table.names, named->st_name, kMaxNameLength);
        pointer.target = named->st_shndx == SHN_UNDEF ? 0 : named->st_value + pointer.target;
      } else if (ELF64_R_TYPE(entry->r_info) != R_X86_64_RELATIVE) {
        continue;
      }
      visit(pointer);
    }
  }
}

std::optional<std::uint64_t> ModuleSymbols::definition(std::string_view name) const {
  if (!definitions_) {
    definitions_.emplace();
    for_each_slot_relocation([&](const Elf64_Rela&, const Elf64_Sym& named, std::string_view text) {
      if (named.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(named.st_info) == STT_FUNC)
        definitions_->emplace(text, named.st_value);
    });
  }
  const auto found = definitions_->find(name);
  return found == definitions_->end() ? std::nullopt : std::optional(found->second);
}

}  // namespace optrace
