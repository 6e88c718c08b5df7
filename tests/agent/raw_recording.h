#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "target/interface/recording_format.h"

namespace optrace::test {

/// A recording that has ended, parsed from the whole content of its region without the command's
/// reader, so that tests of the agent don't depend on that reader.
struct RawRecording {
  struct Thread {
    std::uint64_t id = 0;
    std::uint64_t lost = 0;
    std::vector<recording::InitialFrame> initial;
    std::vector<recording::Event> events;
  };
  struct Plan {
    recording::ProbeRange range{};
    std::string path;
  };
  struct Function {
    std::string name, file;
    std::uint32_t first_line = 0;
  };
  struct OpRecord {
    std::uint32_t id = 0;
    std::string text;
  };

  recording::RegionHeader header{};
  std::vector<std::string> modules;
  std::vector<Plan> plans;
  std::vector<Function> functions;
  std::vector<OpRecord> op_records;
  std::vector<Thread> threads;

  explicit RawRecording(std::string_view bytes) : bytes_(bytes) {
    take(header);
    at_ = header.arena_offset;
    const std::size_t arena_end = at_ + header.arena_used;
    while (at_ < arena_end) {
      recording::SectionHeader section{};
      take(section);
      const std::size_t end = at_ + section.size;
      read_section(section.kind, end);
      if (at_ != end) {
        throw std::runtime_error("a section's size is not its content's");
      }
      at_ = (end + 7) / 8 * 8;
    }
    read_chunks();
  }

  std::uint64_t event_count() const {
    std::uint64_t count = 0;
    for (const Thread& thread : threads) {
      count += thread.events.size();
    }
    return count;
  }

 private:
  template <typename T>
  void take(T& value) {
    if (bytes_.size() - at_ < sizeof(T)) {
      throw std::runtime_error("truncated recording");
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
  }
  template <typename T>
  void take(std::vector<T>& values, std::uint64_t count) {
    values.resize(count);
    for (T& value : values) {
      take(value);
    }
  }
  std::string take_text(std::size_t size) {
    if (bytes_.size() - at_ < size) {
      throw std::runtime_error("truncated recording");
    }
    at_ += size;
    return std::string(bytes_.substr(at_ - size, size));
  }

  void read_section(recording::SectionKind kind, std::size_t end) {
    switch (kind) {
      case recording::SectionKind::module: {
        recording::Module module{};
        take(module);
        modules.push_back(take_text(module.path_size));
        break;
      }
      case recording::SectionKind::probes: {
        Plan plan;
        take(plan.range);
        plan.path = take_text(plan.range.path_size);
        plans.push_back(plan);
        break;
      }
      case recording::SectionKind::python_function: {
        recording::PythonFunction function{};
        take(function);
        Function read;
        read.name = take_text(function.name_size);
        read.file = take_text(function.file_size);
        read.first_line = function.first_line;
        take_text(function.table_size);
        functions.push_back(read);
        break;
      }
      case recording::SectionKind::op_record: {
        recording::OpRecord record{};
        take(record);
        op_records.push_back({record.id, take_text(end - at_)});
        break;
      }
      case recording::SectionKind::initial_stack: {
        recording::InitialStack stack{};
        take(stack);
        Thread& thread = threads.emplace_back();
        thread.id = stack.thread;
        take(thread.initial, stack.count);
        break;
      }
    }
  }

  // A thread's first event has the number of its first chunk.
  void read_chunks() {
    using Key = std::tuple<std::uint32_t, std::uint32_t>;
    std::map<std::uint64_t, std::size_t> in_order;  // Offsets, by the order of the chunks.
    for (std::uint32_t i = 0; i < header.chunk_count; ++i) {
      at_ = header.chunks_offset + i * recording::kChunkSize;
      recording::ChunkHeader chunk{};
      take(chunk);
      if (chunk.state != static_cast<std::uint32_t>(recording::ChunkState::free)) {
        in_order.emplace(chunk.order, at_ - sizeof(chunk));
      }
    }
    std::map<Key, std::size_t> known;
    for (const auto& [order, offset] : in_order) {
      at_ = offset;
      recording::ChunkHeader chunk{};
      take(chunk);
      const auto [place, is_new] = known.try_emplace({chunk.thread, chunk.first}, threads.size());
      if (is_new) {
        place->second = place_of_thread(chunk.thread);
      }
      Thread& thread = threads[place->second];
      thread.lost += chunk.lost;
      read_events(thread);
    }
    if (header.lost != 0) {
      threads.emplace_back().lost = header.lost;
    }
  }

  // The thread that started the recording may already be there, with its stack.
  std::size_t place_of_thread(std::uint32_t id) {
    if (!threads.empty() && threads[0].id == id && threads[0].events.empty()) {
      return 0;
    }
    threads.emplace_back().id = id;
    return threads.size() - 1;
  }

  void read_events(Thread& thread) {
    for (std::uint32_t i = 0; i < recording::kEventsPerChunk; ++i) {
      recording::Event event{};
      take(event);
      if (event.ticks != 0) {
        thread.events.push_back(event);
      }
    }
  }

  std::string_view bytes_;  // Valid in the constructor only.
  std::size_t at_ = 0;
};

}  // namespace optrace::test
