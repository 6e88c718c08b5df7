#pragma once

// What the runtime and the driver share of device memory, beside device.h.

#include <cstddef>
#include <cstdint>

#include "tracer/emulated_device/device/device.h"

namespace optrace::emulated {

/// Bytes that a program can allocate on a device: the part's memory without what a context takes.
OPTRACE_DEVICE_EXPORT std::uint64_t available_memory();

/// Counts memory of a device as used that allocate() does not give: false when it does not suffice.
OPTRACE_DEVICE_EXPORT bool take_memory(std::uint64_t bytes, int device);
OPTRACE_DEVICE_EXPORT void give_back_memory(std::uint64_t bytes, int device);

/// Makes memory that allocate() did not give known to find_allocation(): registered host memory,
/// or what is mapped into a reserved range. `shared`: mapped from a file. False where it overlaps
/// with what is known already.
OPTRACE_DEVICE_EXPORT bool adopt_memory(void* pointer, std::size_t bytes, MemoryKind kind,
                                        int device, bool shared);
OPTRACE_DEVICE_EXPORT bool disown_memory(void* pointer);

/// As memset, but large ranges of zeros commit no memory.
OPTRACE_DEVICE_EXPORT void fill_memory(void* pointer, int value, std::size_t bytes);

}  // namespace optrace::emulated
