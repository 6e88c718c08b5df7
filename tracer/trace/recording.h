#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

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

/// What the sections of a region's arena contain, apart from initial stacks.
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

/// Sets TraceMeta::python_calls_beyond_paths from how often the agent counted each Python function.
void add_python_calls(Trace& trace, const std::vector<std::uint32_t>& counted);

/// Adds the agent's report of missing Python events (RegionHeader::python_missing) to a trace's
/// meta, which is an object with an array of warnings.
void add_missing_python(TraceMeta& meta, std::uint32_t missing);

}  // namespace optrace
