#pragma once

// Copies and fills, which are executed, and memory pools.

#include <cstddef>
#include <cstdint>

#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {

/// Values of cudaMemcpyKind.
enum class Direction : int {
  host_to_host = 0,
  host_to_device = 1,
  device_to_host = 2,
  device_to_device = 3,
  by_address = 4,
};

/// A copy of rows of `width` bytes.
struct Copy {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t rows;
};

/// Records and executes a copy, or adds it to the graph that the stream captures.
OPTRACE_DEVICE_EXPORT Status copy(const Copy& copy, Direction direction, void* stream,
                                  const char* function);
OPTRACE_DEVICE_EXPORT Status make_copy(const Copy& copy, Direction direction, Operation& operation);

/// A fill of rows of `width` elements of 1, 2 or 4 bytes.
struct Fill {
  void* to;
  std::size_t pitch;
  std::uint32_t value;
  unsigned element;
  std::size_t width;
  std::size_t rows;
};
OPTRACE_DEVICE_EXPORT Status fill(const Fill& fill, void* stream, const char* function);
OPTRACE_DEVICE_EXPORT Status make_fill(const Fill& fill, Operation& operation);

struct Pool;
/// Returns a device's default pool, or null for an invalid device.
OPTRACE_DEVICE_EXPORT Pool* default_pool(int device);
OPTRACE_DEVICE_EXPORT Pool* create_pool(int device);
OPTRACE_DEVICE_EXPORT Status destroy_pool(Pool* pool);
OPTRACE_DEVICE_EXPORT Status allocate_from(Pool* pool, std::size_t bytes, void* stream,
                                           void*& pointer, const char* function);
/// Memory that does not come from a pool is released like any other.
OPTRACE_DEVICE_EXPORT Status release_to_pool(void* pointer, void* stream);

/// Number of bytes allocated by graphs on a device.
OPTRACE_DEVICE_EXPORT std::uint64_t graph_memory(int device);

struct PoolUse {
  std::uint64_t now;
  std::uint64_t most;
};
OPTRACE_DEVICE_EXPORT Status pool_use(Pool* pool, PoolUse& use);
OPTRACE_DEVICE_EXPORT Status reset_pool_high(Pool* pool);
/// Settings of a pool, which a program can set and read back. Initially 0.
OPTRACE_DEVICE_EXPORT Status pool_setting(Pool* pool, int attribute, std::uint64_t& value);
OPTRACE_DEVICE_EXPORT Status set_pool_setting(Pool* pool, int attribute, std::uint64_t value);

}  // namespace optrace::emulated
