#pragma once

#include <cstdint>

#include "target/agent/process/pages.h"
#include "target/interface/agent.h"

namespace optrace::agent {

/// State of an entry in a module's import tables.
enum class EntryState : std::uint8_t { found, redirected, restored, left_behind };

struct Entry {
  std::uint64_t address;
  void* was;
  void* original;  ///< The function; null until the entry is redirected.
  void* replacement;
  std::uint32_t redirection;  ///< Index; valid only within the call that found the entry.
  EntryState state;
  bool bound;  ///< False: `was` is the dynamic linker's lazy-binding code.
};

/// Entries found by one call in one module.
struct ModuleEntries {
  /// Identify the module, to check that it is still loaded.
  std::uint64_t bias, first, last;
  /// Pages that are read-only after relocation (RELRO).
  std::uint64_t read_only_first, read_only_last;
  const char* name;
  bool loaded;
  PageArray<Entry> entries;

  bool in_use() const { return entries.data != nullptr; }
};

/// The entries that calls have found, oldest first. They stay after a call; a forked child inherits
/// them.
struct ImportEntries {
  static constexpr std::uint32_t kMaxModules = 1024;

  ModuleEntries modules[kMaxModules];
  std::uint32_t count = 0;
};
inline ImportEntries imports{};

/// Finds the entries that a call of optrace_agent_redirect() applies to in all modules, and appends
/// them to `imports`. Returns 0, -ENXIO if `inside` is in no module, -ENOSPC or -ENOMEM.
int find_import_entries(const void* inside, const optrace_agent_redirection* redirections,
                        std::uint32_t count);

}  // namespace optrace::agent
