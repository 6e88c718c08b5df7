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

/// Looks for the C library's way to find a module that takes no lock (glibc 2.35 and later). Calls
/// libc: not from a probe.
void prepare_module_lookup();

/// Asks the C library for the module around an address, for one that was loaded since the list was
/// made. False where there is none, or no such way. Vector registers must have been saved.
bool look_up_frame_module(std::uint64_t address, FrameModule& module);

}  // namespace optrace::agent
