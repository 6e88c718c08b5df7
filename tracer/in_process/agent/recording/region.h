#pragma once

#include <cstdint>

#include "tracer/in_process/agent/interface/recording_format.h"

namespace optrace::agent {

// Where a recording is kept: memory laid out as recording_format.h says, of the agent's own or
// shared with a reader. Nothing that the agent relies on is read from it, since a reader may write
// there what it wants: it is all in a Region, which lies in the agent.

constexpr std::uint32_t kNoChunk = 0xFFFFFFFF;

struct Region {
  recording::RegionHeader* header = nullptr;
  std::uint64_t arena = 0;       ///< Address of the arena,
  std::uint64_t arena_size = 0;  ///< and its bytes.
  std::uint64_t chunks = 0;      ///< Address of the first chunk, a multiple of kChunkSize.
  std::uint32_t capacity = 0;    ///< Chunks; 0: there is no memory.
  bool shared = false;           ///< Chunks come back; else each is taken once.
  std::int32_t process = 0;      ///< A forked child has no part in its parent's.
  std::uint32_t serial = 0;      ///< Names this content: the arena is empty when it changes.

  // Accessed atomically.
  std::uint64_t arena_used = 0;
  std::uint64_t taken = 0;  ///< Chunks, of all recordings in it; the next one's `order`.
  std::uint64_t lost = 0;   ///< Events of this recording that found no room.
  // Why nobody waits for a chunk now: what `freed` and `heartbeat` were when somebody gave up.
  std::uint32_t gave_up = 0;  ///< GaveUp
  std::uint32_t gave_up_freed = 0;
  std::uint32_t gave_up_heartbeat = 0;

  recording::ChunkHeader* chunk(std::uint32_t index) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<recording::ChunkHeader*>(chunks + index * recording::kChunkSize);
  }
  std::uint32_t chunks_taken() const {
    const std::uint64_t count = __atomic_load_n(&taken, __ATOMIC_ACQUIRE);
    return count < capacity ? static_cast<std::uint32_t>(count) : capacity;
  }
};

inline recording::Event* events_of(recording::ChunkHeader* header) {
  return reinterpret_cast<recording::Event*>(header) + 1;
}

/// The region that recordings go into; null before the first one.
Region* current_region();

/// Bounds the chunks of the agent's own region, in bytes. False when it is there already.
bool limit_private_region(std::uint64_t bytes);

/// Makes the agent's own region the current one. False without memory.
bool use_private_region();

/// Makes the file at least `bytes` long and a fresh region of its first `bytes` the current one. 0
/// or -errno.
int use_shared_region(int fd, std::uint64_t bytes);

/// Gives a shared region's memory back; recording takes a new one.
void drop_shared_region();

/// Whether the calling process may record into the current region.
bool region_is_usable();

/// Empties the agent's own region. What was much gives its memory back, but not its addresses.
void clear_region(Region& region);

/// Gives the memory of the agent's own region back.
void release_region();

/// Room for a section of `size` bytes in the arena, all zeros; null when there is none. Signals
/// are to be blocked until it is complete. Several threads may be at it at once.
void* begin_section(Region& region, std::uint64_t size);

/// The content that begin_section gave is there.
void complete_section(void* content, recording::SectionKind kind, std::uint32_t round = 0);

}  // namespace optrace::agent
