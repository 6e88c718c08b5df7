#pragma once

#include <cstdint>

namespace optrace::agent {

/// A module's addresses, and where its .eh_frame_hdr lies.
struct FrameModule {
  std::uint64_t first, last;  ///< Run-time addresses, last exclusive.
  std::uint64_t table;        ///< The address of .eh_frame_hdr,
  std::uint64_t table_size;   ///< and its bytes.
  std::uint64_t mark;         ///< Its first eight bytes: another file there is told by them.
};

/// Lists the process's modules for find_frame_rule. Calls libc: not from a probe. False without
/// memory.
bool list_frame_modules();

/// Makes a list the one that find_frame_rule searches. It must be sorted and stay where it is.
void use_frame_modules(const FrameModule* modules, std::uint32_t count);

/// The list that is in use has all modules.
void frame_modules_are_current();

/// Whether an address was asked about that lies in no listed module.
bool frame_modules_outdated();

}  // namespace optrace::agent
