#pragma once

#include <cstdint>

#include "target/interface/recording_format.h"

namespace optrace::agent {

// Memory for a recording, laid out as in recording_format.h and shared with a reader. The agent
// relies on nothing that it reads from there, because a reader may overwrite it; its own state is
// in a Region, which is in the agent's memory.

struct Region {
  recording::RegionHeader* header = nullptr;
  std::uint64_t arena = 0;       ///< Address of the arena.
  std::uint64_t arena_size = 0;  ///< Size of the arena in bytes.
  std::uint64_t chunks = 0;      ///< Address of the first chunk, a multiple of kChunkSize.
  std::uint32_t capacity = 0;    ///< Number of chunks; 0: no memory.
  std::int32_t process = 0;      ///< Owner; a forked child must not use its parent's region.
  std::uint32_t serial = 0;      ///< Identifies the region.

  // Accessed atomically.
  std::uint64_t arena_used = 0;
  /// Number of chunks taken by all recordings in it; `order` of the next one.
  std::uint64_t taken = 0;
  /// Number of chunks at the beginning whose memory has been allocated.
  std::uint64_t populated = 0;
  std::uint64_t lost = 0;  ///< Lost events of this recording.
  // Values of `freed` and `heartbeat` when a thread stopped waiting for a chunk. Until they change,
  // no thread waits again.
  std::uint32_t gave_up = 0;  ///< A GaveUp.
  std::uint32_t gave_up_freed = 0;
  std::uint32_t gave_up_heartbeat = 0;

  recording::ChunkHeader* chunk(std::uint32_t index) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<recording::ChunkHeader*>(chunks + index * recording::kChunkSize);
  }
};

inline recording::Event* events_of(recording::ChunkHeader* header) {
  return reinterpret_cast<recording::Event*>(header) + 1;
}

/// Returns the region that recordings are written to, or null before the first one.
Region* current_region();

/// Records that the next event may refer to a module that was loaded since put_new_modules().
void record_met_module();

/// Makes the file at least `bytes` long, creates a region in its first `bytes` and makes it the
/// current one. Returns 0 or -errno.
int use_region(int fd, std::uint64_t bytes);

/// Frees the region's memory; a recording then needs a new region.
void drop_region();

/// Returns true if the calling process may record into the current region.
bool region_is_usable();

/// Returns zero-filled space for a section of `size` bytes in the arena, or null if there is none.
/// Signals must stay blocked until the section is complete. Several threads may call it at once.
void* begin_section(Region& region, std::uint64_t size);

/// Marks the section that begin_section returned as complete.
void complete_section(void* content, recording::SectionKind kind, std::uint32_t round = 0);

}  // namespace optrace::agent
