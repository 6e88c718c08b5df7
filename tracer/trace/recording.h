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

#include "platform/files/mapped_file.h"
#include "target/interface/recording_format.h"
#include "tracer/trace/python_positions.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A file loaded by a process, at run-time addresses.
struct LoadedModule {
  std::uint64_t bias = 0;  ///< Run-time address minus address as linked.
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::string build_id;  ///< Lower-case hex.
  std::string path;
};

/// The modules loaded by a process. Pointers to modules stay valid when others are added.
class ModuleList {
 public:
  /// Adds a module. If one starts at the same address already, the new one replaces it in at(),
  /// unless it is the same file.
  void add(LoadedModule module);

  /// Returns the module that contains a run-time address; null if there is none.
  const LoadedModule* at(std::uint64_t address) const;

  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::size_t size() const { return modules_.size(); }

 private:
  std::list<LoadedModule> modules_;
  std::map<std::uint64_t, const LoadedModule*> by_first_;
};

/// The probes of one plan. Events with these ids are hits of them, in the plan's order.
struct PlacedProbes {
  std::uint32_t first_id = 0;
  std::uint32_t count = 0;
  std::uint32_t placed = 0;
  std::string plan_path;
};

/// The sections that occur both in a recording and in a region's arena.
struct RecordedTexts {
  ModuleList modules;
  std::vector<PlacedProbes> probes;
  std::vector<PythonFunction> python_functions;
  PythonPositions positions;            ///< Positions in python_functions.
  std::vector<std::string> op_records;  ///< JSON texts by id; empty for unused ids.

  /// Reads one section. Returns false if its kind does not belong here. Throws Error(failed) with
  /// the reason if it is malformed.
  bool read(recording::SectionKind kind, std::span<const std::byte> bytes);
};

/// Returns true if the event's kind has a position (has_position).
bool of_python(const recording::Event& raw);

/// Converts a recorded event of a kind with a position. Stack pointer and time are not set; `line`
/// is the position's number.
Event python_event(const recording::Event& raw, PythonPositions& positions);

/// Returns true if the event shows that frames could not be read: its line came from the
/// interpreter.
bool lacks_position(const recording::Event& raw);

/// The trace's warning if an event lacks its position.
std::string positions_warning();

/// Adds the agent's report of missing Python events (RegionHeader::python_missing) to a trace's
/// meta, which is an object with an array of warnings.
void note_missing_python(nlohmann::json& meta, std::uint32_t missing);

/// The agent's raw recording (agent/recording_format.h). All its sizes and ids are validated.
class Recording {
 public:
  /// Records in the file, copied out one at a time because they are not aligned.
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

  /// Throws Error(failed) if the file is absent, is not a recording, is truncated, or is corrupt.
  explicit Recording(const std::filesystem::path& path);

  const ModuleList& modules() const { return texts_.modules; }
  /// Sorted by first id.
  const std::vector<PlacedProbes>& probes() const { return texts_.probes; }
  const std::vector<PythonFunction>& python_functions() const { return texts_.python_functions; }
  const std::vector<Thread>& threads() const { return threads_; }
  const std::vector<std::string>& op_records() const { return texts_.op_records; }
  std::uint32_t python_missing() const { return header_.python_missing; }
  /// The recording's own; the reader of its events modifies it.
  PythonPositions& positions() { return texts_.positions; }

  /// Returns the start in nanoseconds of CLOCK_MONOTONIC.
  std::uint64_t start_nanoseconds() const { return header_.start_nanoseconds; }

  /// Converts a time-stamp counter's value to nanoseconds since recording started.
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
