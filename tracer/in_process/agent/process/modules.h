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
    int protection;             ///< As mprotect takes it.
  };

  const char* name = "";    ///< The dynamic linker's; empty for the program itself.
  std::uint64_t bias = 0;   ///< Run-time address minus address as linked.
  std::uint64_t first = 0;  ///< The run-time addresses that its
  std::uint64_t last = 0;   ///< loadable segments span, last exclusive.
  const std::uint8_t* build_id = nullptr;
  std::uint32_t build_id_size = 0;
  Text text[kMaxTextSegments] = {};
  int text_count = 0;

  /// The executable segment that holds all of [address, address + size), or nothing.
  const Text* text_around(std::uint64_t address, std::uint64_t size) const;
};

/// Reads a module's segments and its build-id, from memory: the file may have been replaced.
LoadedModule describe_module(const dl_phdr_info& info);

/// Fills `path` with the module's path, terminated: the program's own comes from /proc/self/exe.
/// Returns its length.
std::size_t module_path(const LoadedModule& module, char* path, std::size_t capacity);

/// The loaded module with this build-id; among several the one at `path` (not terminated). Without
/// a build-id the path alone decides. False when there is none.
bool find_module(const std::uint8_t* build_id, std::uint32_t build_id_size, const char* path,
                 std::uint32_t path_size, LoadedModule& found);

/// Whether what was found earlier is still loaded at the same place.
bool still_loaded(const LoadedModule& module);

}  // namespace optrace::agent
