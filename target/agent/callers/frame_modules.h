#pragma once

#include <cstdint>

namespace optrace::agent {

/// Address range of a module and location of its .eh_frame_hdr.
struct FrameModule {
  std::uint64_t first, last;  ///< Run-time addresses, last exclusive.
  std::uint64_t table;        ///< Address of .eh_frame_hdr.
  std::uint64_t table_size;   ///< Size of .eh_frame_hdr in bytes.
  /// First eight bytes of .eh_frame_hdr; they differ if another file was mapped there.
  std::uint64_t mark;
};

/// Lists the modules of the process for find_frame_rule. Returns false if memory can't be
/// allocated. Calls libc, so it must not be called from a probe.
bool list_frame_modules();

/// Makes find_frame_rule search this list, which must be sorted and must stay valid.
void use_frame_modules(const FrameModule* modules, std::uint32_t count);

/// Marks the list in use as complete.
void frame_modules_are_current();

/// Returns true if an address was looked up that is in no listed module.
bool frame_modules_outdated();

/// Looks up the C library's lock-free function for finding a module (glibc 2.35 and later). Calls
/// libc, so it must not be called from a probe.
void prepare_module_lookup();

/// Asks the C library for the module that contains `address`, for modules loaded after the list was
/// made. Returns false if there is none or the C library has no such function. The caller must have
/// saved the vector registers.
bool look_up_frame_module(std::uint64_t address, FrameModule& module);

}  // namespace optrace::agent
