#pragma once

// Functions for device memory that the runtime and the driver share, in addition to device.h.

#include <cstddef>
#include <cstdint>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {

/// Number of bytes that a program can allocate on a device: the GPU model's memory minus that of a
/// context.
OPTRACE_DEVICE_EXPORT std::uint64_t available_memory();

/// Counts memory that was not allocated by allocate() as used on a device. Returns false if there
/// is not enough.
OPTRACE_DEVICE_EXPORT bool take_memory(std::uint64_t bytes, int device);
OPTRACE_DEVICE_EXPORT void give_back_memory(std::uint64_t bytes, int device);

/// Registers memory that was not allocated by allocate() for find_allocation(): registered host
/// memory, or memory mapped into a reserved range. `shared`: mapped from a file. Returns false if
/// it overlaps with registered memory.
OPTRACE_DEVICE_EXPORT bool adopt_memory(void* pointer, std::size_t bytes, MemoryKind kind,
                                        int device, bool shared);
OPTRACE_DEVICE_EXPORT bool disown_memory(void* pointer);

/// Same as memset, but a large range of zeros commits no memory.
OPTRACE_DEVICE_EXPORT void fill_memory(void* pointer, int value, std::size_t bytes);

}  // namespace optrace::emulated
