#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <elf.h>
#include <link.h>

#include "target/agent/process/dynamic_tables.h"
#include "target/agent/process/import_entries.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/pages.h"

namespace optrace::agent {
namespace {

// Hash table from a number to one or more redirections.
class NumberTable {
 public:
  bool allocate(std::uint32_t entries) {
    std::uint32_t size = 16;
    while (size < 2 * entries) size *= 2;
    return cells_.allocate(size);
  }
  void release() { cells_.release(); }

  void add(std::uint32_t number, std::uint32_t redirection) {
    std::uint64_t cell = first_cell(number);
    while (cells_[cell].redirection != 0) cell = next_cell(cell);
    cells_[cell] = {number, redirection + 1};
    ++count_;
  }

  bool is_empty() const { return count_ == 0; }
  bool is_full() const { return 2 * count_ >= cells_.count; }

  template <typename Visit>
  void for_each(std::uint32_t number, Visit visit) const {
    for (std::uint64_t cell = first_cell(number); cells_[cell].redirection != 0;
         cell = next_cell(cell)) {
      if (cells_[cell].number == number) visit(cells_[cell].redirection - 1);
    }
  }

  void clear() {
    std::memset(cells_.data, 0, cells_.count * sizeof(Cell));
    count_ = 0;
  }

 private:
  struct Cell {
    std::uint32_t number;
    std::uint32_t redirection;  // Index plus one.
  };
  std::uint64_t first_cell(std::uint32_t number) const {
    return (number * 0x9E3779B1ULL >> 8U) & (cells_.count - 1);
  }
  std::uint64_t next_cell(std::uint64_t cell) const { return (cell + 1) & (cells_.count - 1); }

  PageArray<Cell> cells_;
  std::uint64_t count_ = 0;
};

// Finds the entries that a call applies to in all modules and appends them to `imports`.
class Finder {
 public:
  Finder(const void* inside, const optrace_agent_redirection* redirections, std::uint32_t count)
      : inside_(reinterpret_cast<std::uint64_t>(inside)),
        redirections_(redirections),
        count_(count) {}
  ~Finder() {
    by_name_.release();
    by_symbol_.release();
  }
  Finder(const Finder&) = delete;
  Finder& operator=(const Finder&) = delete;

  int find() {
    if (!by_name_.allocate(count_) || !by_symbol_.allocate(4 * count_)) return -ENOMEM;
    for (std::uint32_t i = 0; i < count_; ++i) by_name_.add(gnu_hash(redirections_[i].symbol), i);
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* argument) {
          auto& finder = *static_cast<Finder*>(argument);
          finder.look_into(*info);
          return finder.error_ == 0 ? 0 : 1;
        },
        this);
    return error_ == 0 && inside_ != 0 && !any_module_ ? -ENXIO : error_;
  }

 private:
  static bool holds(const LoadedModule& module, std::uint64_t address) {
    return address >= module.first && address < module.last;
  }

  // Checks the segment flags of the file, so pages that become read-only after relocation count as
  // writable.
  static bool is_writable(const dl_phdr_info& info, std::uint64_t linked) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info.dlpi_phdr[i];
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0 && linked >= segment.p_vaddr &&
          linked - segment.p_vaddr < segment.p_memsz) {
        return true;
      }
    }
    return false;
  }

  bool is_redirected(const LoadedModule& module) const {
    if (inside_ != 0) return holds(module, inside_);
    // A module that contains a replacement also calls the original function.
    for (std::uint32_t i = 0; i < count_; ++i)
      if (holds(module, reinterpret_cast<std::uint64_t>(redirections_[i].replacement)))
        return false;
    return !holds(module, reinterpret_cast<std::uint64_t>(&imports));
  }

  void find_symbols(const DynamicTables& tables) {
    by_symbol_.clear();
    const auto add = [&](std::uint32_t index, std::uint32_t redirection) {
      if (by_symbol_.is_full())
        error_ = -ENOSPC;
      else
        by_symbol_.add(index, redirection);
    };
    for (std::uint32_t i = 0; i < count_; ++i)
      tables.for_each_hashed(redirections_[i].symbol, [&](std::uint32_t index) { add(index, i); });
    tables.for_each_import([&](std::uint32_t index) {
      const char* const name = tables.name(index);
      by_name_.for_each(gnu_hash(name), [&](std::uint32_t i) {
        if (std::strcmp(redirections_[i].symbol, name) == 0) add(index, i);
      });
    });
  }

  // Calls `visit` with each relocation that makes an entry and its redirection.
  template <typename Visit>
  void for_each_entry(const dl_phdr_info& info, const DynamicTables& tables,
                      const LoadedModule& module, Visit visit) const {
    tables.for_each_relocation([&](const ElfW(Rela) & relocation) {
      const auto type = ELF64_R_TYPE(relocation.r_info);
      const bool imports = type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
                           (type == R_X86_64_64 && relocation.r_addend == 0);
      if (!imports) return;
      by_symbol_.for_each(
          static_cast<std::uint32_t>(ELF64_R_SYM(relocation.r_info)), [&](std::uint32_t i) {
            const std::uint64_t address = module.bias + relocation.r_offset;
            if (address % sizeof(void*) == 0 && is_writable(info, relocation.r_offset))
              visit(relocation, address, i);
          });
    });
  }

  // Stores a module's entries. Returns false if memory can't be allocated.
  bool fill(ModuleEntries& found, const dl_phdr_info& info, const LoadedModule& module,
            const DynamicTables& tables, std::uint64_t entries) const {
    found = {module.bias, module.first, module.last, 0, 0, info.dlpi_name, true, {}};
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info.dlpi_phdr[i];
      if (segment.p_type == PT_GNU_RELRO) {
        found.read_only_first = page_floor(module.bias + segment.p_vaddr);
        found.read_only_last = page_floor(module.bias + segment.p_vaddr + segment.p_memsz);
      }
    }
    if (!found.entries.allocate(entries)) return false;
    std::uint64_t next = 0;
    for_each_entry(
        info, tables, module,
        [&](const ElfW(Rela) & relocation, std::uint64_t address, std::uint32_t redirection) {
          const auto value = __atomic_load_n(at<std::uint64_t>(address), __ATOMIC_ACQUIRE);
          const auto& symbol =
              tables.symbol(static_cast<std::uint32_t>(ELF64_R_SYM(relocation.r_info)));
          const bool own = symbol.st_shndx != SHN_UNDEF && value == module.bias + symbol.st_value;
          const bool bound = ELF64_R_TYPE(relocation.r_info) != R_X86_64_JUMP_SLOT || own ||
                             module.text_around(value, 1) == nullptr;
          found.entries[next++] = {
              address,     at<void>(value),   nullptr, redirections_[redirection].replacement,
              redirection, EntryState::found, bound};
        });
    return true;
  }

  void look_into(const dl_phdr_info& info) {
    const LoadedModule module = describe_module(info);
    if (!is_redirected(module)) return;
    any_module_ = true;
    const DynamicTables tables(info, module);
    if (!tables.usable()) return;
    find_symbols(tables);
    if (by_symbol_.is_empty())
      return;  // Avoid searching the millions of relocations of a large library.
    std::uint64_t entries = 0;
    for_each_entry(info, tables, module,
                   [&](const ElfW(Rela)&, std::uint64_t, std::uint32_t) { ++entries; });
    if (error_ != 0 || entries == 0) return;
    if (imports.count == ImportEntries::kMaxModules) {
      error_ = -ENOSPC;
      return;
    }
    if (!fill(imports.modules[imports.count], info, module, tables, entries)) {
      error_ = -ENOMEM;
      return;
    }
    ++imports.count;
  }

  std::uint64_t inside_;
  const optrace_agent_redirection* redirections_;
  std::uint32_t count_;
  NumberTable by_name_;
  NumberTable by_symbol_;
  bool any_module_ = false;
  int error_ = 0;
};

}  // namespace

int find_import_entries(const void* inside, const optrace_agent_redirection* redirections,
                        std::uint32_t count) {
  return Finder(inside, redirections, count).find();
}

}  // namespace optrace::agent
