#pragma once

#include <atomic>
#include <cstddef>

namespace optrace {

/// How much memory the paths and the timelines of a command's traces may take, all together: those
/// of several processes are counted by several threads. Nothing is given back, because traces live
/// until the report is made.
class MemoryBudget {
 public:
  static constexpr std::size_t kDefault = std::size_t{1} << 30;

  explicit MemoryBudget(std::size_t bytes = kDefault) : bytes_(bytes) {}

  void take(std::size_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }

  /// Whether there is room for what has a place of its own. An eighth is left for the "..." frames.
  bool has_room() const { return used() < bytes_ - bytes_ / 8; }
  bool has_room_for_merged() const { return used() < bytes_; }

  /// Whether another event of a timeline may be kept. Half is left for the paths.
  bool has_room_for_event() const { return used() < bytes_ / 2; }

  /// What threads may remember to be faster.
  std::size_t for_memories() const { return bytes_ / 8; }

 private:
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  const std::size_t bytes_;
  std::atomic<std::size_t> used_ = 0;
};

}  // namespace optrace
