#pragma once

#include <atomic>
#include <cstddef>

namespace optrace {

/// Limits the memory of the paths and timelines of all traces of a command. Thread-safe, because
/// several threads count the processes. Memory is never returned, because traces live until the
/// report is made.
class MemoryBudget {
 public:
  static constexpr std::size_t kDefault = std::size_t{1} << 30;

  explicit MemoryBudget(std::size_t bytes = kDefault) : bytes_(bytes) {}

  void take(std::size_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }

  /// Returns true if there is room for another path. An eighth is reserved for the "..." frames.
  bool has_room() const { return used() < bytes_ - bytes_ / 8; }
  bool has_room_for_merged() const { return used() < bytes_; }

  /// Returns true if another event of a timeline may be kept. Half is reserved for the paths.
  bool has_room_for_event() const { return used() < bytes_ / 2; }

  /// Bytes that the caches of all threads may take.
  std::size_t for_memories() const { return bytes_ / 8; }

 private:
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  const std::size_t bytes_;
  std::atomic<std::size_t> used_ = 0;
};

}  // namespace optrace
