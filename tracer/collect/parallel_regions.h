#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace optrace {

/// The OpenMP regions that threads opened, to find the call that opened a worker's region.
class ParallelRegions {
 public:
  /// A region's function, entered by the thread that opened the region.
  struct Entry {
    std::uint64_t time;
    std::uint32_t thread;
    std::uint32_t path;
  };

  /// The last region opened with a certain pointer to its threads' shared data.
  struct Region {
    std::uint32_t path;    ///< Path of the function that opened it.
    std::uint32_t thread;  ///< Thread that opened it.
    bool counting;         ///< True if that thread was counting.
  };

  /// Records that the function `body` was entered by the thread that opened its region.
  void add_entry(std::uint32_t body, const Entry& entry);
  /// Returns true if the function is the body of a region that was opened.
  bool is_body(std::uint32_t function) const { return entries_.contains(function); }
  /// Returns the entry of `body` by another thread that is nearest in time, or null. Used if the
  /// pointer to the shared data is not recorded: workers start with the region's function, and the
  /// thread that opened the region enters it slightly earlier or later.
  const Entry* nearest_entry(std::uint32_t body, std::uint32_t thread, std::uint64_t time) const;

  /// Records that a region was opened. `data` is the pointer to its threads' shared data, which
  /// lies on the stack of the opening thread. That thread waits for the workers, so the pointer
  /// identifies one region at a time.
  void open(std::uint64_t data, const Region& region);
  /// Returns the region with this data, or null.
  const Region* opened_with(std::uint64_t data) const;

 private:
  std::unordered_map<std::uint32_t, std::vector<Entry>> entries_;  // By the body's function.
  std::unordered_map<std::uint64_t, Region> regions_;  // By the pointer to the shared data.
};

}  // namespace optrace
