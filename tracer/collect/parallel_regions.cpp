#include "tracer/collect/parallel_regions.h"

#include <cstddef>

namespace optrace {
namespace {

constexpr std::size_t kKeptEntries = 64;  // For each body.
constexpr std::size_t kKeptRegions = 1 << 16;

}  // namespace

void ParallelRegions::add_entry(std::uint32_t body, const Entry& entry) {
  std::vector<Entry>& entries = entries_[body];
  if (entries.size() == kKeptEntries) entries.erase(entries.begin());
  entries.push_back(entry);
}

const ParallelRegions::Entry* ParallelRegions::nearest_entry(std::uint32_t body,
                                                             std::uint32_t thread,
                                                             std::uint64_t time) const {
  const auto found = entries_.find(body);
  if (found == entries_.end()) return nullptr;
  const Entry* nearest = nullptr;
  std::uint64_t distance = 0;
  for (const Entry& entry : found->second) {
    if (entry.thread == thread) continue;
    const std::uint64_t apart = entry.time < time ? time - entry.time : entry.time - time;
    if (nearest != nullptr && apart >= distance) continue;
    nearest = &entry;
    distance = apart;
  }
  return nearest;
}

void ParallelRegions::open(std::uint64_t data, const Region& region) {
  if (regions_.size() >= kKeptRegions) regions_.clear();
  regions_[data] = region;
}

const ParallelRegions::Region* ParallelRegions::opened_with(std::uint64_t data) const {
  const auto found = regions_.find(data);
  return found == regions_.end() ? nullptr : &found->second;
}

}  // namespace optrace
