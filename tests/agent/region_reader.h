#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/interface/recording_format.h"
#include "tests/agent/raw_recording.h"

namespace optrace::test {

/// A minimal reader of a shared region, which keeps all events. It does not use the command's
/// reader, so that tests of the agent don't depend on that reader.
class RegionReader {
 public:
  struct Thread {
    std::deque<recording::Event> events;  // A deque, because moving events would make writers wait.
    std::uint64_t lost = 0;
  };

  explicit RegionReader(int fd) {
    struct stat status{};
    fstat(fd, &status);
    size_ = static_cast<std::uint64_t>(status.st_size);
    void* const memory = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
      throw std::runtime_error("the region can't be mapped");
    }
    base_ = static_cast<char*>(memory);
    if (std::memcmp(header().magic, recording::kRegionMagic, sizeof(header().magic)) != 0 ||
        header().size != size_) {
      throw std::runtime_error("it is no region");
    }
    chunks_offset_ = header().chunks_offset;
    read_events_.resize(header().chunk_count);
  }
  ~RegionReader() { munmap(base_, size_); }
  RegionReader(const RegionReader&) = delete;
  RegionReader& operator=(const RegionReader&) = delete;

  recording::RegionHeader& header() const {
    return *reinterpret_cast<recording::RegionHeader*>(base_);
  }
  recording::ChunkHeader& chunk(std::uint32_t index) const {
    return *reinterpret_cast<recording::ChunkHeader*>(base_ + header().chunks_offset +
                                                      index * recording::kChunkSize);
  }

  /// Same as chunk(), but does not trust the header, which a test may have overwritten.
  recording::ChunkHeader& hostile_chunk(std::uint32_t index) const {
    return *reinterpret_cast<recording::ChunkHeader*>(base_ + chunks_offset_ +
                                                      index * recording::kChunkSize);
  }

  const std::map<std::uint32_t, Thread>& threads() const { return threads_; }
  const std::vector<RawRecording::Plan>& plans() const { return plans_; }
  const std::vector<std::string>& modules() const { return modules_; }
  const std::map<std::uint32_t, std::string>& op_records() const { return op_records_; }
  std::uint64_t initial_frames() const { return initial_frames_; }

  /// Returns the number of lost events, as counted in the chunks that follow them.
  std::uint64_t lost() const {
    std::uint64_t lost = 0;
    for (const auto& [id, thread] : threads_) {
      lost += thread.lost;
    }
    return lost;
  }

  void want_plan(const std::string& path) const {
    path.copy(header().plan_path, path.size());
    header().plan_path[path.size()] = '\0';
    std::atomic_ref(header().plan_requested).fetch_add(1);
  }

  /// Reads all available sections and events, and frees the sealed chunks.
  void drain() {
    std::atomic_ref(header().heartbeat).fetch_add(1);
    read_arena();
    // Sorted by order, since a thread's sealed chunks may be older than the chunk that it owns.
    std::map<std::uint64_t, std::uint32_t> in_order;
    for (std::uint32_t i = 0; i < header().chunk_count; ++i) {
      const auto state = std::atomic_ref(chunk(i).state).load(std::memory_order_acquire);
      if (state != static_cast<std::uint32_t>(recording::ChunkState::free)) {
        in_order.emplace(chunk(i).order << 32 | i, i);
      }
    }
    for (const auto& [order, index] : in_order) {
      read_chunk(index);
    }
  }

 private:
  void read_chunk(std::uint32_t index) {
    recording::ChunkHeader& header = chunk(index);
    const auto state = std::atomic_ref(header.state).load(std::memory_order_acquire);
    auto* const events = reinterpret_cast<recording::Event*>(&header) + 1;
    std::uint32_t& at = read_events_[index];
    while (at < recording::kEventsPerChunk &&
           std::atomic_ref(events[at].ticks).load(std::memory_order_acquire) != 0) {
      Thread& thread = threads_[header.thread];
      thread.lost += at == 0 ? header.lost : 0;
      thread.events.push_back(events[at++]);
    }
    if (state == static_cast<std::uint32_t>(recording::ChunkState::sealed)) {
      at = 0;
      std::memset(static_cast<void*>(events), 0, recording::kChunkSize - sizeof(header));
      std::atomic_ref(header.state)
          .store(static_cast<std::uint32_t>(recording::ChunkState::free),
                 std::memory_order_release);
      std::atomic_ref(this->header().freed).fetch_add(1);
      syscall(SYS_futex, &this->header().freed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  }

  void read_arena() {
    const std::uint64_t used = std::atomic_ref(header().arena_used).load(std::memory_order_acquire);
    while (arena_read_ < used) {
      char* const at = base_ + header().arena_offset + arena_read_;
      auto& section = *reinterpret_cast<recording::SectionHeader*>(at);
      const auto kind = std::atomic_ref(section.kind).load(std::memory_order_acquire);
      if (static_cast<std::uint32_t>(kind) == 0) {
        return;
      }
      read_section(kind, at + sizeof(section), section.size);
      arena_read_ += sizeof(section) + (section.size + 7) / 8 * 8;
    }
  }

  void read_section(recording::SectionKind kind, const char* content, std::uint64_t size) {
    switch (kind) {
      case recording::SectionKind::module: {
        const auto& module = *reinterpret_cast<const recording::Module*>(content);
        modules_.emplace_back(content + sizeof(module), module.path_size);
        return;
      }
      case recording::SectionKind::probes: {
        const auto& range = *reinterpret_cast<const recording::ProbeRange*>(content);
        plans_.push_back({range, std::string(content + sizeof(range), range.path_size)});
        return;
      }
      case recording::SectionKind::op_record: {
        const auto& record = *reinterpret_cast<const recording::OpRecord*>(content);
        op_records_[record.id] = std::string(content + sizeof(record), size - sizeof(record));
        return;
      }
      case recording::SectionKind::initial_stack:
        initial_frames_ = reinterpret_cast<const recording::InitialStack*>(content)->count;
        return;
      case recording::SectionKind::python_function:
        return;
    }
    throw std::runtime_error("a section that no region has");
  }

  char* base_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t chunks_offset_ = 0;
  std::uint64_t arena_read_ = 0;
  std::vector<std::uint32_t> read_events_;  // Number of events read, per chunk.
  std::map<std::uint32_t, Thread> threads_;
  std::vector<RawRecording::Plan> plans_;
  std::vector<std::string> modules_;
  std::map<std::uint32_t, std::string> op_records_;
  std::uint64_t initial_frames_ = 0;
};

}  // namespace optrace::test
