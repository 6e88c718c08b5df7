#pragma once

// What is known of device memory's contents. Kernels are not executed, so only copies, fills and
// the few kernels of device_kernel_effects.h put anything there. Everything else reads as zeros:
// what was never written, what an allocator handed out again, and what a kernel may have written
// since.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracer/emulated_device/device/byte_ranges.h"
#include "tracer/emulated_device/device/device.h"

namespace optrace::emulated {

/// Bytes were put there, by the host or by what is emulated.
OPTRACE_DEVICE_EXPORT void contents_written(const void* pointer, std::size_t bytes);

/// They were filled with zeros: they read as such anyway, but are known to.
OPTRACE_DEVICE_EXPORT void contents_zeroed(const void* pointer, std::size_t bytes);

/// Bytes were put there that are only presumed: the host reads them, but they count as not known.
OPTRACE_DEVICE_EXPORT void contents_presumed(const void* pointer, std::size_t bytes);

/// What was just copied from one place to another is as well known there as where it came from.
OPTRACE_DEVICE_EXPORT void contents_copied(const void* to, const void* from, std::size_t bytes);

/// What was put there is not valid any more: it reads as zeros from now on. Costs nothing where
/// nothing was written.
OPTRACE_DEVICE_EXPORT void forget_contents(const void* pointer, std::size_t bytes);

/// As forget_contents(), of so many matrices that lie `stride` bytes apart: columns of some bytes,
/// which lie `pitch` bytes apart.
struct Columns {
  std::size_t bytes;
  std::size_t count;
  std::size_t pitch;
};
OPTRACE_DEVICE_EXPORT void forget_matrices(void* pointer, const Columns& columns, std::size_t count,
                                           std::size_t stride);

/// The memory goes away: as forget_contents(), but nothing is written.
OPTRACE_DEVICE_EXPORT void drop_contents(const void* pointer, std::size_t bytes);

/// The ranges of those bytes that have contents.
OPTRACE_DEVICE_EXPORT std::vector<ByteRange> contents_of(const void* pointer, std::size_t bytes);

/// The ranges of those bytes that are known: contents that aren't just presumed, and zeros that
/// were put there; lowest first.
OPTRACE_DEVICE_EXPORT std::vector<ByteRange> known_of(const void* pointer, std::size_t bytes);

/// Whether the host's memory may take so many more bytes of contents. It takes half of what the
/// machine (or its control group) has, or $OPTRACE_DRY_RUN_HOST_MEMORY MiB.
OPTRACE_DEVICE_EXPORT bool has_room_for_contents(std::size_t bytes);

/// Whether memory of that size may be given out: all of it could get contents. Memory without
/// contents costs nothing, so this is asked only once half of the room is used.
OPTRACE_DEVICE_EXPORT bool may_be_given_out(std::size_t bytes);

/// From `pointer` to the end of the block of PyTorch's caching allocator that it lies in; else to
/// the end of the allocation; 0 for what is no device memory.
OPTRACE_DEVICE_EXPORT std::size_t bytes_of_block_from(const void* pointer);

}  // namespace optrace::emulated
