#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tracer/trace/recording.h"

namespace optrace {

/// Throws Error(failed): the traced process has written something impossible to the region.
[[noreturn]] void refuse_region(const char* reason);

/// Reads a word that the traced process may be writing.
template <typename T>
T load_shared(const T& word, std::memory_order order = std::memory_order_acquire) {
  return std::atomic_ref(const_cast<T&>(word)).load(order);
}

/// The memory that the agent in the traced process shares with the collector, mapped. The layout
/// that the agent has written is read once and checked.
class SharedRegion {
 public:
  /// Throws Error(failed) if the region can't be mapped or its layout is impossible.
  explicit SharedRegion(int descriptor);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  recording::RegionHeader& header() const {
    return *reinterpret_cast<recording::RegionHeader*>(base_);
  }
  std::uint32_t chunk_count() const { return chunk_count_; }
  recording::ChunkHeader& chunk(std::uint32_t index) const {
    return *reinterpret_cast<recording::ChunkHeader*>(base_ + chunks_offset_ +
                                                      index * recording::kChunkSize);
  }
  recording::Event* events(std::uint32_t index) const {
    return reinterpret_cast<recording::Event*>(&chunk(index)) + 1;
  }
  std::span<std::byte> arena() const { return {base_ + arena_offset_, arena_size_}; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t arena_offset_ = 0;
  std::uint64_t arena_size_ = 0;
  std::uint64_t chunks_offset_ = 0;
  std::uint32_t chunk_count_ = 0;
};

}  // namespace optrace
