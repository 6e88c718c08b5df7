#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "target/interface/recording_format.h"

namespace optrace::test {

/// A raw recording, parsed without the command's reader, so that tests of the writer don't depend
/// on that reader.
struct RawRecording {
  struct Thread {
    recording::Thread header{};
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

  recording::Header header{};
  std::vector<std::string> modules;
  std::vector<Plan> plans;
  std::vector<Function> functions;
  std::vector<OpRecord> op_records;
  std::vector<Thread> threads;
  bool complete = false;

  explicit RawRecording(const std::string& bytes) : bytes_(bytes) {
    take(header);
    while (at_ < bytes_.size()) {
      recording::SectionHeader section{};
      take(section);
      const std::size_t end = at_ + section.size;
      read_section(section.kind, end);
      if (at_ != end) {
        throw std::runtime_error("a section's size is not its content's");
      }
      at_ = (end + 7) / 8 * 8;
    }
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
    return bytes_.substr(at_ - size, size);
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
      case recording::SectionKind::thread: {
        Thread thread;
        take(thread.header);
        take(thread.initial, thread.header.initial_count);
        take(thread.events, thread.header.event_count);
        threads.push_back(thread);
        break;
      }
      case recording::SectionKind::op_record: {
        recording::OpRecord record{};
        take(record);
        op_records.push_back({record.id, take_text(end - at_)});
        break;
      }
      case recording::SectionKind::initial_stack:
        throw std::runtime_error("a section that only a region has");
      case recording::SectionKind::end:
        complete = true;
        break;
    }
  }

  const std::string& bytes_;
  std::size_t at_ = 0;
};

}  // namespace optrace::test
