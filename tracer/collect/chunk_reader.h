#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "target/interface/recording_format.h"
#include "tracer/collect/shared_region.h"

namespace optrace {

/// Reads the events of a region's chunks, by thread, and gives back the chunks that it has read.
class ChunkReader {
 public:
  /// A thread's chunks in order, and how far they have been read.
  struct Thread {
    std::uint32_t index = 0;                        ///< Index of the thread in the trace.
    std::uint64_t lost = 0;                         ///< Events for which there was no room.
    std::map<std::uint64_t, std::uint32_t> chunks;  ///< By their order.
    std::uint32_t at = 0;                           ///< The next event in the first chunk.
    int waits = 0;  ///< Rounds in which a slot in a sealed chunk stayed empty.
  };

  /// The region must outlive this object.
  explicit ChunkReader(const SharedRegion& region)
      : region_(region), known_chunks_(region.chunk_count()) {}

  /// Looks for chunks that threads have begun to fill. With `last`, threads write no more.
  void find_chunks(bool last);

  /// Assigns the chunks found to their threads. `add_thread` is called for each new one, with its
  /// id, and returns its index.
  void open_found(const std::function<std::uint32_t(std::uint32_t thread)>& add_thread);

  /// The threads, by their id and first chunk.
  std::map<std::uint64_t, Thread>& threads() { return threads_; }
  const std::map<std::uint64_t, Thread>& threads() const { return threads_; }

  /// Gets the thread's next event without consuming it. Returns false if there is none. With
  /// `last`, the thread writes no more.
  bool next_event(Thread& thread, bool last, recording::Event& event);

  /// The slots from the thread's next event to the end of its chunk; empty without a chunk.
  std::span<const recording::Event> next_slots(const Thread& thread) const;

 private:
  void give_back(std::uint32_t chunk);

  const SharedRegion& region_;
  std::vector<std::uint8_t> known_chunks_;
  std::uint32_t chunks_met_ = 0;  // No chunk from there on has been taken yet, as far as is known.
  std::map<std::uint32_t, recording::ChunkHeader> found_chunks_;  // Chunks without a thread.
  std::map<std::uint64_t, Thread> threads_;
};

}  // namespace optrace
