#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "platform/mapped_file.h"
#include "tracer/in_process/agent/interface/recording_format.h"
#include "tracer/trace/python_positions.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A file that a process has loaded, at run-time addresses.
struct LoadedModule {
  std::uint64_t bias = 0;  ///< Run-time address minus address as linked.
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::string build_id;  ///< Lower-case hex.
  std::string path;
};

/// What a process has loaded. Modules stay where they are, whatever is added.
class ModuleList {
 public:
  /// A module that begins where one is already takes its place only if it is another file.
  void add(LoadedModule module);

  /// The module that spans a run-time address; null if none does.
  const LoadedModule* at(std::uint64_t address) const;

  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::size_t size() const { return modules_.size(); }

 private:
  std::list<LoadedModule> modules_;
  std::map<std::uint64_t, const LoadedModule*> by_first_;
};

/// The probes of one plan: events with these ids are hits of them, in the plan's order.
struct PlacedProbes {
  std::uint32_t first_id = 0;
  std::uint32_t count = 0;
  std::uint32_t placed = 0;
  std::string plan_path;
};

/// The sections that a recording and a region's arena have in common.
struct RecordedTexts {
  ModuleList modules;
  std::vector<PlacedProbes> probes;
  std::vector<PythonFunction> python_functions;
  PythonPositions positions;            ///< In them.
  std::vector<std::string> op_records;  ///< By id; JSON texts, empty where an id was not used.

  /// Reads one section. False if it is of a kind that has no place here. Throws Error(failed)
  /// saying why for a malformed one.
  bool read(recording::SectionKind kind, std::span<const std::byte> bytes);
};

/// Whether the event is of a kind with a position (has_position).
bool of_python(const recording::Event& raw);

/// What a recorded event of a kind with a position is to a trace, but for stack pointer and time;
/// its line is the position's number.
Event python_event(const recording::Event& raw, PythonPositions& positions);

/// Whether the event says that frames could not be read: its line was asked of the interpreter.
bool lacks_position(const recording::Event& raw);

/// What a trace says if some event lacked one.
std::string positions_warning();

/// Notes in a trace's meta, which is an object with an array of warnings, what the agent says of
/// missing Python events (RegionHeader::python_missing).
void note_missing_python(nlohmann::json& meta, std::uint32_t missing);

/// The agent's raw recording (agent/recording_format.h), every size and id in it checked.
class Recording {
 public:
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

  const ModuleList& modules() const { return texts_.modules; }
  const std::vector<PlacedProbes>& probes() const { return texts_.probes; }  ///< By first id.
  const std::vector<PythonFunction>& python_functions() const { return texts_.python_functions; }
  const std::vector<Thread>& threads() const { return threads_; }
  const std::vector<std::string>& op_records() const { return texts_.op_records; }
  std::uint32_t python_missing() const { return header_.python_missing; }
  /// The recording's own, to be used up by who reads its events.
  PythonPositions& positions() { return texts_.positions; }

  /// Nanoseconds since recording started, for a time-stamp counter's value.
  std::uint64_t nanoseconds(std::uint64_t ticks) const;

 private:
  void read_section(recording::SectionKind kind, std::span<const std::byte> bytes);
  void read_thread(std::span<const std::byte> bytes);
  void check_events() const;
  [[noreturn]] void fail(const char* reason) const;

  MappedFile file_;
  recording::Header header_{};
  RecordedTexts texts_;
  std::vector<Thread> threads_;
};

}  // namespace optrace
