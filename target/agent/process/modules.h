#pragma once

#include <cstddef>
#include <cstdint>

#include <link.h>

namespace optrace::agent {

/// A loaded ELF file, as the dynamic linker lists it.
struct LoadedModule {
  static constexpr int kMaxTextSegments = 8;
  struct Text {
    std::uint64_t first, last;  ///< Run-time addresses, last exclusive.
    int protection;             ///< Protection flags of mprotect.
  };

  const char* name = "";    ///< Name in the dynamic linker's list; empty for the program itself.
  std::uint64_t bias = 0;   ///< Run-time address minus address as linked.
  std::uint64_t first = 0;  ///< First run-time address of the loadable segments.
  std::uint64_t last = 0;   ///< End of the loadable segments, exclusive.
  const std::uint8_t* build_id = nullptr;
  std::uint32_t build_id_size = 0;
  Text text[kMaxTextSegments] = {};
  int text_count = 0;

  /// Returns the executable segment that contains all of [address, address + size), or null.
  const Text* text_around(std::uint64_t address, std::uint64_t size) const;
};

/// Reads a module's segments and its build-id from memory, because the file may have been replaced.
LoadedModule describe_module(const dl_phdr_info& info);

/// Stores the module's path in `path`, null-terminated. The program's own path comes from
/// /proc/self/exe. Returns the length.
std::size_t module_path(const LoadedModule& module, char* path, std::size_t capacity);

/// Finds the loaded module with this build-id. If several have it, the one at `path` (not
/// null-terminated) is chosen. Without a build-id, the module is found by its path alone. Returns
/// false if there is none.
bool find_module(const std::uint8_t* build_id, std::uint32_t build_id_size, const char* path,
                 std::uint32_t path_size, LoadedModule& found);

/// Returns true if a module found earlier is still loaded at the same address.
bool still_loaded(const LoadedModule& module);

}  // namespace optrace::agent
