#pragma once

// Tracking of the contents of device memory. Kernels are not executed, so only copies, fills and
// the few kernels of device_kernel_effects.h write there. Everything else reads as zeros: memory
// that was never written, that an allocator reused, or that a kernel may have overwritten.

#include <cstddef>
#include <vector>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/memory/byte_ranges.h"

namespace optrace::emulated {

/// Marks bytes as written by the host or by an emulated operation.
OPTRACE_DEVICE_EXPORT void contents_written(const void* pointer, std::size_t bytes);

/// Marks bytes as filled with zeros. They would read as zeros anyway, but are now known to be.
OPTRACE_DEVICE_EXPORT void contents_zeroed(const void* pointer, std::size_t bytes);

/// Marks bytes as written with a presumed value, which the host can read but which does not count
/// as known.
OPTRACE_DEVICE_EXPORT void contents_presumed(const void* pointer, std::size_t bytes);

/// After a copy, marks the destination as known to the same extent as the source.
OPTRACE_DEVICE_EXPORT void contents_copied(const void* to, const void* from, std::size_t bytes);

/// Marks bytes as overwritten by unknown values; they read as zeros from now on. Costs nothing if
/// nothing was written there.
OPTRACE_DEVICE_EXPORT void discard_contents(const void* pointer, std::size_t bytes);

/// For discard_matrices(), which does the same as discard_contents() for `count` matrices that are
/// `stride` bytes apart. A matrix consists of columns of `bytes` bytes that are `pitch` bytes
/// apart.
struct Columns {
  std::size_t bytes;
  std::size_t count;
  std::size_t pitch;
};
OPTRACE_DEVICE_EXPORT void discard_matrices(void* pointer, const Columns& columns,
                                            std::size_t count, std::size_t stride);

/// Same as discard_contents(), but for memory that is being freed: nothing is written to it.
OPTRACE_DEVICE_EXPORT void drop_contents(const void* pointer, std::size_t bytes);

/// Returns the ranges of these bytes that have contents.
OPTRACE_DEVICE_EXPORT std::vector<ByteRange> contents_of(const void* pointer, std::size_t bytes);

/// Returns the ranges of these bytes that are known, lowest first: contents that are not presumed,
/// and zeros from fills.
OPTRACE_DEVICE_EXPORT std::vector<ByteRange> known_of(const void* pointer, std::size_t bytes);

/// Returns true if the host's memory can take this many more bytes of contents. The limit is half
/// of the memory of the machine (or its control group), or $OPTRACE_DRY_RUN_HOST_MEMORY MiB.
OPTRACE_DEVICE_EXPORT bool has_room_for_contents(std::size_t bytes);

/// Returns true if memory of this size may be allocated, since all of it could get contents. Memory
/// without contents costs nothing, so the size is checked only once half of the limit is used.
OPTRACE_DEVICE_EXPORT bool may_be_given_out(std::size_t bytes);

/// Returns the number of bytes from `pointer` to the end of its block of PyTorch's caching
/// allocator, or otherwise of its allocation. Returns 0 for other than device memory.
OPTRACE_DEVICE_EXPORT std::size_t bytes_of_block_from(const void* pointer);

}  // namespace optrace::emulated
