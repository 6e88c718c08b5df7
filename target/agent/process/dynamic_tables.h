#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <elf.h>
#include <link.h>

#include "target/agent/process/modules.h"

namespace optrace::agent {

template <typename T>
T* at(std::uint64_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

inline std::uint32_t gnu_hash(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

inline std::uint32_t system_v_hash(const char* name) {
  std::uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4U) + static_cast<unsigned char>(*name);
    const std::uint32_t high = hash & 0xf0000000U;
    hash = (hash ^ (high >> 24U)) & ~high;
  }
  return hash;
}

/// The parts of a module's dynamic section that describe imports.
class DynamicTables {
 public:
  DynamicTables(const dl_phdr_info& info, const LoadedModule& module) : module_(module) {
    const ElfW(Dyn)* entry = nullptr;
    for (int i = 0; i < info.dlpi_phnum; ++i)
      if (info.dlpi_phdr[i].p_type == PT_DYNAMIC)
        entry = at<const ElfW(Dyn)>(module.bias + info.dlpi_phdr[i].p_vaddr);
    for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) read(*entry);
  }

  bool usable() const { return symbols_ != nullptr && strings_ != nullptr; }
  const ElfW(Sym) & symbol(std::uint32_t index) const { return symbols_[index]; }
  const char* name(std::uint32_t index) const { return strings_ + symbols_[index].st_name; }

  /// Visits each dynamic symbol of this name that the hash table contains. A GNU hash table omits
  /// undefined symbols; `for_each_import` visits those.
  template <typename Visit>
  void for_each_hashed(const char* searched, Visit visit) const {
    if (gnu_ != nullptr) {
      const std::uint32_t buckets = gnu_[0];
      const std::uint32_t* const bucket = gnu_ + 4 + gnu_[2] * (sizeof(ElfW(Addr)) / 4);
      const std::uint32_t* const chain = bucket + buckets;
      const std::uint32_t hash = gnu_hash(searched);
      std::uint32_t index = buckets == 0 ? 0 : bucket[hash % buckets];
      for (bool more = index >= gnu_[1] && index != 0; more; ++index) {
        const std::uint32_t value = chain[index - gnu_[1]];
        if ((value | 1U) == (hash | 1U) && std::strcmp(name(index), searched) == 0) visit(index);
        more = (value & 1U) == 0;
      }
    } else if (system_v_ != nullptr && system_v_[0] > 0) {
      const std::uint32_t* const bucket = system_v_ + 2;
      const std::uint32_t* const chain = bucket + system_v_[0];
      for (std::uint32_t index = bucket[system_v_hash(searched) % system_v_[0]];
           index != STN_UNDEF && index < system_v_[1]; index = chain[index]) {
        if (std::strcmp(name(index), searched) == 0) visit(index);
      }
    }
  }

  template <typename Visit>
  void for_each_import(Visit visit) const {
    const std::uint32_t end = gnu_ == nullptr ? 0 : gnu_[1];
    for (std::uint32_t index = 1; index < end; ++index) visit(index);
  }

  template <typename Visit>
  void for_each_relocation(Visit visit) const {
    const std::size_t relocations = relocations_size_ / sizeof(*relocations_);
    for (std::size_t i = relative_count_; i < relocations; ++i) visit(relocations_[i]);
    if (jumps_are_rela_) {
      const std::size_t jumps = jumps_size_ / sizeof(*jumps_);
      for (std::size_t i = 0; i < jumps; ++i) visit(jumps_[i]);
    }
  }

 private:
  /// Most dynamic linkers relocate these values in place, some don't.
  template <typename T>
  const T* pointer(const ElfW(Dyn) & entry) const {
    const std::uint64_t value = entry.d_un.d_ptr;
    const bool loaded = value >= module_.first && value < module_.last;
    return at<const T>(loaded ? value : value + module_.bias);
  }

  void read(const ElfW(Dyn) & entry) {
    switch (entry.d_tag) {
      case DT_SYMTAB:
        symbols_ = pointer<ElfW(Sym)>(entry);
        break;
      case DT_STRTAB:
        strings_ = pointer<char>(entry);
        break;
      case DT_GNU_HASH:
        gnu_ = pointer<std::uint32_t>(entry);
        break;
      case DT_HASH:
        system_v_ = pointer<std::uint32_t>(entry);
        break;
      case DT_RELA:
        relocations_ = pointer<ElfW(Rela)>(entry);
        break;
      case DT_RELASZ:
        relocations_size_ = entry.d_un.d_val;
        break;
      case DT_RELACOUNT:
        relative_count_ = entry.d_un.d_val;
        break;
      case DT_JMPREL:
        jumps_ = pointer<ElfW(Rela)>(entry);
        break;
      case DT_PLTRELSZ:
        jumps_size_ = entry.d_un.d_val;
        break;
      case DT_PLTREL:
        jumps_are_rela_ = entry.d_un.d_val == DT_RELA;
        break;
      default:
        break;
    }
  }

  const LoadedModule& module_;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const std::uint32_t* gnu_ = nullptr;
  const std::uint32_t* system_v_ = nullptr;
  const ElfW(Rela) * relocations_ = nullptr;
  std::uint64_t relocations_size_ = 0;
  std::uint64_t relative_count_ = 0;
  const ElfW(Rela) * jumps_ = nullptr;
  std::uint64_t jumps_size_ = 0;
  bool jumps_are_rela_ = false;
};

}  // namespace optrace::agent
