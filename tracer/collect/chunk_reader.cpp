#include "tracer/collect/chunk_reader.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <utility>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace optrace {
namespace {

using recording::ChunkState;

// The limit for waiting for an empty slot near the end of a sealed chunk, or before filled ones.
// Its thread may have been interrupted while it filled the slot.
constexpr int kMaxWaitsForSlot = 50;  // In rounds.

bool is_in_state(const recording::ChunkHeader& chunk, ChunkState state) {
  return load_shared(chunk.state) == static_cast<std::uint32_t>(state);
}

}  // namespace

void ChunkReader::find_chunks(bool last) {
  for (std::uint32_t i = 0; i < region_.chunk_count(); ++i) {
    if (known_chunks_[i] != 0) continue;
    const recording::ChunkHeader& header = region_.chunk(i);
    if (is_in_state(header, ChunkState::free)) {
      // A thread takes the first free chunk, so those after one that was never taken are free. (A
      // thread that got no memory for a chunk may have left it again.)
      if (i >= chunks_met_ && !last) break;
      continue;
    }
    chunks_met_ = std::max(chunks_met_, i + 1);
    // Owned; the owner has written the header once an event is complete.
    if (load_shared(region_.events(i)->ticks) == 0 && !is_in_state(header, ChunkState::sealed))
      continue;
    recording::ChunkHeader& copy = found_chunks_[i];
    std::memcpy(&copy, &header, sizeof copy);
    known_chunks_[i] = 1;
  }
}

void ChunkReader::open_found(const std::function<std::uint32_t(std::uint32_t thread)>& add_thread) {
  for (const auto& [index, header] : std::exchange(found_chunks_, {})) {
    const std::uint64_t key = std::uint64_t{header.thread} << 32 | header.first;
    const auto [place, is_new] = threads_.try_emplace(key);
    Thread& thread = place->second;
    if (is_new) thread.index = add_thread(header.thread);
    thread.lost += header.lost;
    thread.chunks.emplace(header.order, index);
  }
}

void ChunkReader::give_back(std::uint32_t index) {
  recording::ChunkHeader& header = region_.chunk(index);
  std::memset(static_cast<void*>(region_.events(index)), 0,
              recording::kChunkSize - sizeof(recording::ChunkHeader));
  known_chunks_[index] = 0;
  std::atomic_ref(header.state)
      .store(static_cast<std::uint32_t>(ChunkState::free), std::memory_order_release);
  recording::RegionHeader& shared = region_.header();
  std::atomic_ref(shared.freed).fetch_add(1);
  if (load_shared(shared.waiting) != 0)
    syscall(SYS_futex, &shared.freed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool ChunkReader::next_event(Thread& thread, bool last, recording::Event& event) {
  while (!thread.chunks.empty()) {
    const std::uint32_t index = thread.chunks.begin()->second;
    const bool sealed = is_in_state(region_.chunk(index), ChunkState::sealed);
    recording::Event* const slots = region_.events(index);
    if (thread.at < recording::kEventsPerChunk) {
      if (load_shared(slots[thread.at].ticks) != 0) {
        std::memcpy(&event, &slots[thread.at], sizeof event);
        thread.waits = 0;
        return true;
      }
      if (!sealed && !last) return false;
      // The slot was taken and is not filled yet, or was never taken.
      const bool more =
          std::any_of(slots + thread.at + 1, slots + recording::kEventsPerChunk,
                      [](const auto& later) { return load_shared(later.ticks) != 0; });
      constexpr std::uint32_t kNearEnd = 8;  // Signal handlers may have taken the slots after it.
      const bool suspicious = more || thread.at + kNearEnd >= recording::kEventsPerChunk;
      if (!last && suspicious && thread.waits++ < kMaxWaitsForSlot) return false;
      if (more) {
        ++thread.at;
        continue;
      }
    } else if (!sealed && !last) {
      return false;
    }
    if (sealed) give_back(index);
    thread.chunks.erase(thread.chunks.begin());
    thread.at = 0;
    thread.waits = 0;
  }
  return false;
}

std::span<const recording::Event> ChunkReader::next_slots(const Thread& thread) const {
  if (thread.chunks.empty()) return {};
  const std::span<const recording::Event> slots(region_.events(thread.chunks.begin()->second),
                                                recording::kEventsPerChunk);
  return slots.subspan(thread.at);
}

}  // namespace optrace
