#include "target/agent/process/import_redirect.h"

#include <cerrno>
#include <cstddef>

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "target/agent/process/dynamic_tables.h"
#include "target/agent/process/import_entries.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/pages.h"

namespace optrace::agent {
namespace {

constexpr std::uint32_t kMaxRedirections = 1U << 14U;

// Address of a redirected function.
struct Original {
  void* function;
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
    if (first_ < last_ && mprotect(at<void>(first_), last_ - first_, PROT_READ | PROT_WRITE) != 0)
      error_ = errno;
  }
  ~WritableEntries() {
    if (first_ < last_ && error_ == 0) mprotect(at<void>(first_), last_ - first_, PROT_READ);
  }
  WritableEntries(const WritableEntries&) = delete;
  WritableEntries& operator=(const WritableEntries&) = delete;

  int error() const { return error_; }

 private:
  std::uint64_t first_ = UINT64_MAX;
  std::uint64_t last_ = 0;
  int error_ = 0;
};

// Stores `desired` if the entry contains `expected`. Returns the previous value.
void* exchange(const Entry& entry, void* expected, void* desired) {
  __atomic_compare_exchange_n(at<void*>(entry.address), &expected, desired, false, __ATOMIC_ACQ_REL,
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
  if (held != entry.was) entry.state = EntryState::restored;
  return held == entry.was;
}

void restore(Entry& entry) {
  void* const held = exchange(entry, entry.replacement, entry.was);
  // A thread that was binding the entry while it was redirected has stored the original function.
  const bool is_undone = held == entry.replacement || held == entry.was || held == entry.original;
  entry.state = is_undone ? EntryState::restored : EntryState::left_behind;
}

// Calls `act` with each element of `imports`, starting at `first`, whose module is still loaded; no
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
        for (std::uint32_t i = current.first; i < imports.count && current.result == 0; ++i) {
          ModuleEntries& module = imports.modules[i];
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

// Frees the elements of `imports`, starting at `first`, that have no redirected entry.
void release_idle(std::uint32_t first) {
  for (std::uint32_t i = first; i < imports.count; ++i) {
    bool idle = true;
    for (std::uint64_t j = 0; j < imports.modules[i].entries.count; ++j) {
      const EntryState state = imports.modules[i].entries[j].state;
      idle = idle && state != EntryState::redirected && state != EntryState::left_behind;
    }
    if (idle) imports.modules[i].entries.release();
  }
  while (imports.count > 0 && !imports.modules[imports.count - 1].in_use()) --imports.count;
}

const Entry* find_redirected(std::uint32_t end, std::uint64_t address) {
  for (std::uint32_t i = 0; i < end; ++i) {
    for (std::uint64_t j = 0; j < imports.modules[i].entries.count; ++j) {
      const Entry& entry = imports.modules[i].entries[j];
      if (entry.address == address && entry.state == EntryState::redirected) return &entry;
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

// Stores the addresses of the original functions, and drops new entries of `imports` that are
// already redirected as requested or refer to another function. Returns -EEXIST if an entry is
// redirected to another replacement.
int resolve_original_entries(std::uint32_t first_new, const optrace_agent_redirection* redirections,
                             PageArray<Original>& originals) {
  for (std::uint32_t i = first_new; i < imports.count; ++i) {
    for (std::uint64_t j = 0; j < imports.modules[i].entries.count; ++j) {
      Entry& entry = imports.modules[i].entries[j];
      const Entry* const earlier = find_redirected(first_new, entry.address);
      if (earlier != nullptr && entry.was == earlier->replacement) {
        if (earlier->replacement != entry.replacement) return -EEXIST;
        entry.state = EntryState::restored;
        originals[entry.redirection].function = *redirections[entry.redirection].original;
      } else if (entry.bound && originals[entry.redirection].function == nullptr) {
        originals[entry.redirection].function = entry.was;
      }
    }
  }
  for (std::uint32_t i = first_new; i < imports.count; ++i) {
    for (std::uint64_t j = 0; j < imports.modules[i].entries.count; ++j) {
      Entry& entry = imports.modules[i].entries[j];
      void*& original = originals[entry.redirection].function;
      if (original == nullptr && !entry.bound)
        original = look_up(redirections[entry.redirection].symbol, imports.modules[i].name);
      if (original == nullptr || (entry.bound && entry.was != original))
        entry.state = EntryState::restored;
    }
  }
  return 0;
}

// Returns true if the entry is redirected to one of the replacements, or to any if null.
bool is_redirected(const Entry& entry, const optrace_agent_redirection* redirections,
                   std::uint32_t count) {
  bool meant = redirections == nullptr;
  for (std::uint32_t i = 0; i < count && !meant; ++i)
    meant = redirections[i].replacement == entry.replacement;
  return meant && entry.state == EntryState::redirected;
}

int restore_module(ModuleEntries& module, const optrace_agent_redirection* redirections,
                   std::uint32_t count) {
  const WritableEntries writable(module);
  if (writable.error() != 0) return -writable.error();
  for (std::uint64_t i = 0; i < module.entries.count; ++i) {
    Entry& entry = module.entries[i];
    if (is_redirected(entry, redirections, count)) restore(entry);
  }
  return 0;
}

}  // namespace

bool are_in_use(const optrace_agent_redirection* redirections, std::uint32_t count) {
  for (std::uint32_t i = 0; i < imports.count; ++i) {
    for (std::uint64_t j = 0; j < imports.modules[i].entries.count; ++j)
      if (is_redirected(imports.modules[i].entries[j], redirections, count)) return true;
  }
  return false;
}

int redirect_imports(const void* inside, const optrace_agent_redirection* redirections,
                     std::uint32_t count) {
  if (redirections == nullptr || count == 0 || count > kMaxRedirections) return -EINVAL;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (redirections[i].symbol == nullptr || redirections[i].replacement == nullptr ||
        redirections[i].original == nullptr) {
      return -EINVAL;
    }
  }
  const std::uint32_t first_new = imports.count;
  PageArray<Original> originals;
  int result =
      originals.allocate(count) ? find_import_entries(inside, redirections, count) : -ENOMEM;
  if (result == 0) result = resolve_original_entries(first_new, redirections, originals);
  int redirected = 0;
  if (result == 0) {
    for (std::uint32_t i = 0; i < count; ++i)
      if (originals[i].function != nullptr)
        __atomic_store_n(redirections[i].original, originals[i].function, __ATOMIC_RELEASE);
    result = with_loaded(first_new, [&](ModuleEntries& module) {
      const WritableEntries writable(module);
      for (std::uint64_t i = 0; i < module.entries.count && writable.error() == 0; ++i) {
        Entry& entry = module.entries[i];
        if (entry.state == EntryState::found)
          redirected += redirect(entry, originals[entry.redirection].function) ? 1 : 0;
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
  for (std::uint32_t i = 0; i < imports.count; ++i) imports.modules[i].loaded = false;
  const int result = with_loaded(0, [&](ModuleEntries& module) {
    module.loaded = true;
    return restore_module(module, redirections, count);
  });
  if (result != 0) return result;
  for (std::uint32_t i = 0; i < imports.count; ++i)
    if (!imports.modules[i].loaded) imports.modules[i].entries.release();
  release_idle(0);
  return static_cast<int>(imports_left_behind());
}

std::uint64_t imports_left_behind() {
  std::uint64_t entries = 0;
  for (std::uint32_t i = 0; i < imports.count; ++i)
    for (std::uint64_t j = 0; j < imports.modules[i].entries.count; ++j)
      entries += imports.modules[i].entries[j].state == EntryState::left_behind ? 1U : 0U;
  return entries;
}

}  // namespace optrace::agent
