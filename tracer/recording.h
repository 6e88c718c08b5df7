#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "platform/mapped_file.h"
#include "tracer/agent/recording_format.h"
#include "tracer/trace.h"

namespace optrace {

/// The agent's raw recording (agent/recording_format.h), every size and id in it checked.
class Recording {
 public:
  struct Module {
    std::uint64_t bias = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::string build_id;  ///< Lower-case hex.
    std::string path;
  };
  struct Probes {
    std::uint32_t first_id = 0;
    std::uint32_t count = 0;
    std::uint32_t placed = 0;
    std::string plan_path;
  };
  /// Records as they lie in the file, read one at a time because nothing aligns them.
  template <typename T>
  class Array {
   public:
    Array() = default;
    explicit Array(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::size_t size() const { return bytes_.size() / sizeof(T); }
    T operator[](std::size_t index) const {
      T value;
      std::memcpy(&value, bytes_.data() + index * sizeof(T), sizeof(T));
      return value;
    }

   private:
    std::span<const std::byte> bytes_;
  };
  struct Thread {
    std::uint64_t id = 0;
    std::uint64_t lost = 0;
    Array<recording::InitialFrame> initial;  ///< Innermost first.
    Array<recording::Event> events;
  };

  /// Throws Error(failed) when the file is absent, no recording, truncated, or corrupt.
  explicit Recording(const std::filesystem::path& path);

  const std::vector<Module>& modules() const { return modules_; }  ///< By first address.
  const std::vector<Probes>& probes() const { return probes_; }    ///< By first id, disjoint.
  const std::vector<PythonFunction>& python_functions() const { return python_functions_; }
  const std::vector<Thread>& threads() const { return threads_; }
  /// By id; JSON texts as the agent wrote them, empty where an id was not used.
  const std::vector<std::string>& op_records() const { return op_records_; }

  /// The module that spans a run-time address; null if none does.
  const Module* module_at(std::uint64_t address) const;

  /// The probes that an event's id belongs to. Every event's id that is no Python event has some.
  const Probes& probes_of(std::uint32_t id) const;

  /// Nanoseconds since recording started, for a time-stamp counter's value.
  std::uint64_t nanoseconds(std::uint64_t ticks) const;

 private:
  void read_section(recording::SectionKind kind, std::span<const std::byte> bytes);
  void read_thread(std::span<const std::byte> bytes);
  void check_events() const;
  [[noreturn]] void fail(const char* reason) const;

  MappedFile file_;
  recording::Header header_{};
  std::vector<Module> modules_;
  std::vector<Probes> probes_;
  std::vector<PythonFunction> python_functions_;
  std::vector<Thread> threads_;
  std::vector<std::string> op_records_;
};

}  // namespace optrace
