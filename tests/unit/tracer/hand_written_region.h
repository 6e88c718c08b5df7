#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "target/interface/recording_format.h"

namespace optrace::test {

/// A shared region that a test writes in place of an agent.
class HandWrittenRegion {
 public:
  static constexpr std::uint32_t kChunks = 4;
  static constexpr std::uint64_t kArena = 64UL * 1024;
  static constexpr std::uint64_t kSize =
      recording::kChunkSize + kArena + kChunks * recording::kChunkSize;

  HandWrittenRegion() : file_(memfd_create("region", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(file_, static_cast<off_t>(kSize)) == 0);
    void* const memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    REQUIRE(memory != MAP_FAILED);
    base_ = static_cast<char*>(memory);
    recording::RegionHeader& it = header();
    std::memcpy(it.magic, recording::kRegionMagic, sizeof it.magic);
    it.version = recording::kRegionVersion;
    it.process = static_cast<std::uint32_t>(getpid());
    it.size = kSize;
    it.arena_offset = recording::kChunkSize;
    it.arena_size = kArena;
    it.chunks_offset = recording::kChunkSize + kArena;
    it.chunk_count = kChunks;
    it.recording = 1;
    it.start_ticks = 1000;
    it.start_nanoseconds = 1;
    it.stop_ticks = 3'600'000'000'000;
    it.stop_nanoseconds = 3'599'999'999'001;
  }
  ~HandWrittenRegion() {
    munmap(base_, kSize);
    close(file_);
  }
  HandWrittenRegion(const HandWrittenRegion&) = delete;
  HandWrittenRegion& operator=(const HandWrittenRegion&) = delete;

  int file() const { return file_; }
  char* bytes() const { return base_; }
  recording::RegionHeader& header() const {
    return *reinterpret_cast<recording::RegionHeader*>(base_);
  }
  recording::ChunkHeader& chunk(std::uint32_t index) const {
    return *reinterpret_cast<recording::ChunkHeader*>(base_ + recording::kChunkSize + kArena +
                                                      index * recording::kChunkSize);
  }
  recording::Event* events(std::uint32_t index) const {
    return reinterpret_cast<recording::Event*>(&chunk(index)) + 1;
  }

  void section(recording::SectionKind kind, const std::string& bytes) const {
    char* const at = base_ + recording::kChunkSize + header().arena_used;
    const recording::SectionHeader head{kind, 0, bytes.size()};
    std::memcpy(at, &head, sizeof head);
    std::ranges::copy(bytes, at + sizeof head);
    header().arena_used += sizeof head + (bytes.size() + 7) / 8 * 8;
  }
  void python_function(std::string_view name, std::string_view file = {}, std::uint32_t line = 1,
                       std::string_view table = {}) const {
    const recording::PythonFunction head{.first_line = line,
                                         .name_size = static_cast<std::uint32_t>(name.size()),
                                         .file_size = static_cast<std::uint32_t>(file.size()),
                                         .table_size = static_cast<std::uint32_t>(table.size()),
                                         .minor_version = 10,
                                         .calls = recording::kUncounted};
    section(recording::SectionKind::python_function,
            bytes_of(head) + std::string(name) + std::string(file) + std::string(table));
  }
  void op_record(std::uint32_t id, const std::string& json) const {
    section(recording::SectionKind::op_record, bytes_of(recording::OpRecord{id, 0}) + json);
  }
  /// Writes the stack of a thread at the start; its innermost frame is the first.
  void initial_stack(std::uint64_t thread,
                     const std::vector<recording::InitialFrame>& frames) const {
    std::string bytes = bytes_of(recording::InitialStack{thread, frames.size()});
    for (const recording::InitialFrame& frame : frames) bytes += bytes_of(frame);
    section(recording::SectionKind::initial_stack, bytes);
  }
  void own(std::uint32_t index, std::uint32_t thread, std::uint64_t order) const {
    chunk(index).thread = thread;
    chunk(index).order = order;
    chunk(index).state = static_cast<std::uint32_t>(recording::ChunkState::owned);
  }
  void seal(std::uint32_t index) const {
    chunk(index).state = static_cast<std::uint32_t>(recording::ChunkState::sealed);
  }
  /// Returns the event of a call of a Python function at the given slot and time.
  static recording::Event call(std::uint32_t function, std::uint64_t slot, std::uint64_t ticks) {
    return {recording::kPythonCall, 7, slot, function, ticks};
  }
  static recording::Event ends(std::uint32_t function, std::uint64_t slot, std::uint64_t ticks) {
    return {recording::kPythonReturn, 0, slot, function, ticks};
  }

  template <typename T>
  static std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

 private:
  int file_;
  char* base_ = nullptr;
};

}  // namespace optrace::test
