#include "target/agent/process/import_redirect.h"

#include <cerrno>
#include <cstring>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include "target/agent/process/modules.h"
#include "target/agent/process/pages.h"

namespace optrace::agent {

namespace {

// State of an entry in a module's import tables.
enum class EntryState : std::uint8_t { found, redirected, restored, left_behind };

struct Entry {
  std::uint64_t address;
  void* was;
  void* original;  // The function; null until the entry is redirected.
  void* replacement;
  std::uint32_t redirection;  // Index; valid only within the call that found the entry.
  EntryState state;
  bool bound;  // False: `was` is the dynamic linker's lazy-binding code.
};

// Entries found by one call in one module.
struct ModuleEntries {
  // Identify the module, to check that it is still loaded.
  std::uint64_t bias, first, last;
  // Pages that are read-only after relocation (RELRO).
  std::uint64_t read_only_first, read_only_last;
  const char* name;
  bool loaded;
  PageArray<Entry> entries;

  bool in_use() const { return entries.data != nullptr; }
};

// Address of a redirected function.
struct Original {
  void* function;
};

constexpr std::uint32_t kMaxModules = 1024;
constexpr std::uint32_t kMaxRedirections = 1U << 14U;

// Keeps its content after a call; a forked child inherits it.
ModuleEntries modules[kMaxModules];
std::uint32_t module_count = 0;

template <typename T>
T* at(std::uint64_t address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr)
}

std::uint32_t gnu_hash(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) {
    hash = hash * 33 + static_cast<unsigned char>(*name);
  }
  return hash;
}

std::uint32_t system_v_hash(const char* name) {
  std::uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4U) + static_cast<unsigned char>(*name);
    const std::uint32_t high = hash & 0xf0000000U;
    hash = (hash ^ (high >> 24U)) & ~high;
  }
  return hash;
}

// Hash table from a number to one or more redirections.
class NumberTable {
 public:
  bool allocate(std::uint32_t entries) {
    std::uint32_t size = 16;
    while (size < 2 * entries) {
      size *= 2;
    }
    return cells_.allocate(size);
  }
  void release() { cells_.release(); }

  void add(std::uint32_t number, std::uint32_t redirection) {
    std::uint64_t cell = first_cell(number);
    while (cells_[cell].redirection != 0) {
      cell = next_cell(cell);
    }
    cells_[cell] = {number, redirection + 1};
    ++count_;
  }

  bool is_empty() const { return count_ == 0; }
  bool is_full() const { return 2 * count_ >= cells_.count; }

  template <typename Visit>
  void for_each(std::uint32_t number, Visit visit) const {
    for (std::uint64_t cell = first_cell(number); cells_[cell].redirection != 0;
         cell = next_cell(cell)) {
      if (cells_[cell].number == number) {
        visit(cells_[cell].redirection - 1);
      }
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

// The parts of a module's dynamic section that describe imports.
class DynamicTables {
 public:
  DynamicTables(const dl_phdr_info& info, const LoadedModule& module) : module_(module) {
    const ElfW(Dyn)* entry = nullptr;
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
        entry = at<const ElfW(Dyn)>(module.bias + info.dlpi_phdr[i].p_vaddr);
      }
    }
    for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      read(*entry);
    }
  }

  bool usable() const { return symbols_ != nullptr && strings_ != nullptr; }
  const ElfW(Sym) & symbol(std::uint32_t index) const { return symbols_[index]; }
  const char* name(std::uint32_t index) const { return strings_ + symbols_[index].st_name; }

  // Visits each dynamic symbol of this name that the hash table contains. A GNU hash table omits
  // undefined symbols; `for_each_import` visits those.
  template <typename Visit>
  void for_each_hashed(const char* wanted, Visit visit) const {
    if (gnu_ != nullptr) {
      const std::uint32_t buckets = gnu_[0];
      const std::uint32_t* const bucket = gnu_ + 4 + gnu_[2] * (sizeof(ElfW(Addr)) / 4);
      const std::uint32_t* const chain = bucket + buckets;
      const std::uint32_t hash = gnu_hash(wanted);
      std::uint32_t index = buckets == 0 ? 0 : bucket[hash % buckets];
      for (bool more = index >= gnu_[1] && index != 0; more; ++index) {
        const std::uint32_t value = chain[index - gnu_[1]];
        if ((value | 1U) == (hash | 1U) && std::strcmp(name(index), wanted) == 0) {
          visit(index);
        }
        more = (value & 1U) == 0;
      }
    } else if (system_v_ != nullptr && system_v_[0] > 0) {
      const std::uint32_t* const bucket = system_v_ + 2;
      const std::uint32_t* const chain = bucket + system_v_[0];
      for (std::uint32_t index = bucket[system_v_hash(wanted) % system_v_[0]];
           index != STN_UNDEF && index < system_v_[1]; index = chain[index]) {
        if (std::strcmp(name(index), wanted) == 0) {
          visit(index);
        }
      }
    }
  }

  template <typename Visit>
  void for_each_import(Visit visit) const {
    const std::uint32_t end = gnu_ == nullptr ? 0 : gnu_[1];
    for (std::uint32_t index = 1; index < end; ++index) {
      visit(index);
    }
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
  // Most dynamic linkers relocate these values in place, some don't.
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

// Finds the entries that a call applies to in all modules and appends them to `modules`.
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
    if (!by_name_.allocate(count_) || !by_symbol_.allocate(4 * count_)) {
      return -ENOMEM;
    }
    for (std::uint32_t i = 0; i < count_; ++i) {
      by_name_.add(gnu_hash(redirections_[i].symbol), i);
    }
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

  bool is_wanted(const LoadedModule& module) const {
    if (inside_ != 0) {
      return holds(module, inside_);
    }
    // A module that contains a replacement also calls the original function.
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (holds(module, reinterpret_cast<std::uint64_t>(redirections_[i].replacement))) {
        return false;
      }
    }
    return !holds(module, reinterpret_cast<std::uint64_t>(&module_count));
  }

  void find_symbols(const DynamicTables& tables) {
    by_symbol_.clear();
    const auto add = [&](std::uint32_t index, std::uint32_t redirection) {
      if (by_symbol_.is_full()) {
        error_ = -ENOSPC;
      } else {
        by_symbol_.add(index, redirection);
      }
    };
    for (std::uint32_t i = 0; i < count_; ++i) {
      tables.for_each_hashed(redirections_[i].symbol, [&](std::uint32_t index) { add(index, i); });
    }
    tables.for_each_import([&](std::uint32_t index) {
      const char* const name = tables.name(index);
      by_name_.for_each(gnu_hash(name), [&](std::uint32_t i) {
        if (std::strcmp(redirections_[i].symbol, name) == 0) {
          add(index, i);
        }
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
      if (!imports) {
        return;
      }
      by_symbol_.for_each(
          static_cast<std::uint32_t>(ELF64_R_SYM(relocation.r_info)), [&](std::uint32_t i) {
            const std::uint64_t address = module.bias + relocation.r_offset;
            if (address % sizeof(void*) == 0 && is_writable(info, relocation.r_offset)) {
              visit(relocation, address, i);
            }
          });
    });
  }

  void look_into(const dl_phdr_info& info) {
    const LoadedModule module = describe_module(info);
    if (!is_wanted(module)) {
      return;
    }
    any_module_ = true;
    const DynamicTables tables(info, module);
    if (!tables.usable()) {
      return;
    }
    find_symbols(tables);
    if (by_symbol_.is_empty()) {
      return;  // Avoid searching the millions of relocations of a large library.
    }
    std::uint64_t entries = 0;
    for_each_entry(info, tables, module,
                   [&](const ElfW(Rela)&, std::uint64_t, std::uint32_t) { ++entries; });
    if (error_ != 0 || entries == 0) {
      return;
    }
    if (module_count == kMaxModules) {
      error_ = -ENOSPC;
      return;
    }
    ModuleEntries& found = modules[module_count];
    found = {module.bias, module.first, module.last, 0, 0, info.dlpi_name, true, {}};
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = info.dlpi_phdr[i];
      if (segment.p_type == PT_GNU_RELRO) {
        found.read_only_first = page_floor(module.bias + segment.p_vaddr);
        found.read_only_last = page_floor(module.bias + segment.p_vaddr + segment.p_memsz);
      }
    }
    if (!found.entries.allocate(entries)) {
      error_ = -ENOMEM;
      return;
    }
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
    ++module_count;
  }

  std::uint64_t inside_;
  const optrace_agent_redirection* redirections_;
  std::uint32_t count_;
  NumberTable by_name_;
  NumberTable by_symbol_;
  bool any_module_ = false;
  int error_ = 0;
};

// Makes a module's read-only entries writable during its lifetime.
class WritableEntries {
 public:
  explicit WritableEntries(const ModuleEntries& module) {
    for (std::uint64_t i = 0; i < module.entries.count; ++i) {
      const std::uint64_t address = module.entries[i].address;
      if (address >= module.read_only_first && address < module.read_only_last) {
        first_ = address < first_ ? page_floor(address) : first_;
        const std::uint64_t end = page_ceiling(address + sizeof(void*));
        last_ = end > last_ ? end : last_;
      }
    }
    if (first_ < last_ && mprotect(at<void>(first_), last_ - first_, PROT_READ | PROT_WRITE) != 0) {
      error_ = errno;
    }
  }
  ~WritableEntries() {
    if (first_ < last_ && error_ == 0) {
      mprotect(at<void>(first_), last_ - first_, PROT_READ);
    }
  }
  WritableEntries(const WritableEntries&) = delete;
  WritableEntries& operator=(const WritableEntries&) = delete;

  int error() const { return error_; }

 private:
  std::uint64_t first_ = UINT64_MAX;
  std::uint64_t last_ = 0;
  int error_ = 0;
};

// Stores `wanted` if the entry contains `expected`. Returns the previous value.
void* exchange(const Entry& entry, void* expected, void* wanted) {
  __atomic_compare_exchange_n(at<void*>(entry.address), &expected, wanted, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  return expected;
}

bool redirect(Entry& entry, void* original) {
  // Set first, so that a child forked in between restores the entry.
  entry.original = original;
  entry.state = EntryState::redirected;
  void* held = exchange(entry, entry.was, entry.replacement);
  if (held != entry.was && held == original) {  // Bound in the meantime.
    entry.was = original;
    held = exchange(entry, entry.was, entry.replacement);
  }
  if (held != entry.was) {
    entry.state = EntryState::restored;
  }
  return held == entry.was;
}

void restore(Entry& entry) {
  void* const held = exchange(entry, entry.replacement, entry.was);
  // A thread that was binding the entry while it was redirected has stored the original function.
  const bool is_undone = held == entry.replacement || held == entry.was || held == entry.original;
  entry.state = is_undone ? EntryState::restored : EntryState::left_behind;
}

// Calls `act` with each element of `modules`, starting at `first`, whose module is still loaded; no
// module can be unloaded during the call. Stops at the first result that is not 0 and returns it,
// otherwise 0.
template <typename Act>
int with_loaded(std::uint32_t first, Act act) {
  struct Work {
    std::uint32_t first;
    Act& act;
    int result;
  } work{first, act, 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& current = *static_cast<Work*>(argument);
        const LoadedModule loaded = describe_module(*info);
        for (std::uint32_t i = current.first; i < module_count && current.result == 0; ++i) {
          ModuleEntries& module = modules[i];
          if (module.in_use() && module.bias == loaded.bias && module.first == loaded.first &&
              module.last == loaded.last) {
            current.result = current.act(module);
          }
        }
        return current.result;
      },
      &work);
  return work.result;
}

// Frees the elements of `modules`, starting at `first`, that have no redirected entry.
void release_idle(std::uint32_t first) {
  for (std::uint32_t i = first; i < module_count; ++i) {
    bool idle = true;
    for (std::uint64_t j = 0; j < modules[i].entries.count; ++j) {
      const EntryState state = modules[i].entries[j].state;
      idle = idle && state != EntryState::redirected && state != EntryState::left_behind;
    }
    if (idle) {
      modules[i].entries.release();
    }
  }
  while (module_count > 0 && !modules[module_count - 1].in_use()) {
    --module_count;
  }
}

const Entry* find_redirected(std::uint32_t end, std::uint64_t address) {
  for (std::uint32_t i = 0; i < end; ++i) {
    for (std::uint64_t j = 0; j < modules[i].entries.count; ++j) {
      const Entry& entry = modules[i].entries[j];
      if (entry.address == address && entry.state == EntryState::redirected) {
        return &entry;
      }
    }
  }
  return nullptr;
}

// Looks up a function as the dynamic linker would. Used if no entry is bound to it.
void* look_up(const char* symbol, const char* module_name) {
  void* found = dlsym(RTLD_DEFAULT, symbol);
  if (found == nullptr) {
    void* const module = dlopen(module_name, RTLD_LAZY | RTLD_NOLOAD);
    if (module != nullptr) {
      found = dlsym(module, symbol);
      dlclose(module);
    }
  }
  return found;
}

// Stores the addresses of the original functions, and drops new entries of `modules` that are
// already redirected as requested or refer to another function. Returns -EEXIST if an entry is
// redirected to another replacement.
int settle_originals(std::uint32_t first_new, const optrace_agent_redirection* redirections,
                     PageArray<Original>& originals) {
  for (std::uint32_t i = first_new; i < module_count; ++i) {
    for (std::uint64_t j = 0; j < modules[i].entries.count; ++j) {
      Entry& entry = modules[i].entries[j];
      const Entry* const earlier = find_redirected(first_new, entry.address);
      if (earlier != nullptr && entry.was == earlier->replacement) {
        if (earlier->replacement != entry.replacement) {
          return -EEXIST;
        }
        entry.state = EntryState::restored;
        originals[entry.redirection].function = *redirections[entry.redirection].original;
      } else if (entry.bound && originals[entry.redirection].function == nullptr) {
        originals[entry.redirection].function = entry.was;
      }
    }
  }
  for (std::uint32_t i = first_new; i < module_count; ++i) {
    for (std::uint64_t j = 0; j < modules[i].entries.count; ++j) {
      Entry& entry = modules[i].entries[j];
      void*& original = originals[entry.redirection].function;
      if (original == nullptr && !entry.bound) {
        original = look_up(redirections[entry.redirection].symbol, modules[i].name);
      }
      if (original == nullptr || (entry.bound && entry.was != original)) {
        entry.state = EntryState::restored;
      }
    }
  }
  return 0;
}

// Returns true if the entry is redirected to one of the replacements, or to any if null.
bool is_redirected(const Entry& entry, const optrace_agent_redirection* redirections,
                   std::uint32_t count) {
  bool meant = redirections == nullptr;
  for (std::uint32_t i = 0; i < count && !meant; ++i) {
    meant = redirections[i].replacement == entry.replacement;
  }
  return meant && entry.state == EntryState::redirected;
}

int restore_module(ModuleEntries& module, const optrace_agent_redirection* redirections,
                   std::uint32_t count) {
  const WritableEntries writable(module);
  if (writable.error() != 0) {
    return -writable.error();
  }
  for (std::uint64_t i = 0; i < module.entries.count; ++i) {
    Entry& entry = module.entries[i];
    if (is_redirected(entry, redirections, count)) {
      restore(entry);
    }
  }
  return 0;
}

}  // namespace

bool are_in_use(const optrace_agent_redirection* redirections, std::uint32_t count) {
  for (std::uint32_t i = 0; i < module_count; ++i) {
    for (std::uint64_t j = 0; j < modules[i].entries.count; ++j) {
      if (is_redirected(modules[i].entries[j], redirections, count)) {
        return true;
      }
    }
  }
  return false;
}

int redirect_imports(const void* inside, const optrace_agent_redirection* redirections,
                     std::uint32_t count) {
  if (redirections == nullptr || count == 0 || count > kMaxRedirections) {
    return -EINVAL;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (redirections[i].symbol == nullptr || redirections[i].replacement == nullptr ||
        redirections[i].original == nullptr) {
      return -EINVAL;
    }
  }
  const std::uint32_t first_new = module_count;
  PageArray<Original> originals;
  int result = originals.allocate(count) ? Finder(inside, redirections, count).find() : -ENOMEM;
  if (result == 0) {
    result = settle_originals(first_new, redirections, originals);
  }
  int redirected = 0;
  if (result == 0) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (originals[i].function != nullptr) {
        __atomic_store_n(redirections[i].original, originals[i].function, __ATOMIC_RELEASE);
      }
    }
    result = with_loaded(first_new, [&](ModuleEntries& module) {
      const WritableEntries writable(module);
      for (std::uint64_t i = 0; i < module.entries.count && writable.error() == 0; ++i) {
        Entry& entry = module.entries[i];
        if (entry.state == EntryState::found) {
          redirected += redirect(entry, originals[entry.redirection].function) ? 1 : 0;
        }
      }
      return -writable.error();
    });
  }
  if (result != 0) {
    with_loaded(first_new,
                [](ModuleEntries& module) { return restore_module(module, nullptr, 0); });
  }
  originals.release();
  release_idle(first_new);
  return result != 0 ? result : redirected;
}

int restore_imports(const optrace_agent_redirection* redirections, std::uint32_t count) {
  for (std::uint32_t i = 0; i < module_count; ++i) {
    modules[i].loaded = false;
  }
  const int result = with_loaded(0, [&](ModuleEntries& module) {
    module.loaded = true;
    return restore_module(module, redirections, count);
  });
  if (result != 0) {
    return result;
  }
  for (std::uint32_t i = 0; i < module_count; ++i) {
    if (!modules[i].loaded) {
      modules[i].entries.release();
    }
  }
  release_idle(0);
  return static_cast<int>(imports_left_behind());
}

std::uint64_t imports_left_behind() {
  std::uint64_t entries = 0;
  for (std::uint32_t i = 0; i < module_count; ++i) {
    for (std::uint64_t j = 0; j < modules[i].entries.count; ++j) {
      entries += modules[i].entries[j].state == EntryState::left_behind ? 1U : 0U;
    }
  }
  return entries;
}

}  // namespace optrace::agent
