#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "target/interface/recording_format.h"
#include "tracer/collect/function_table.h"
#include "tracer/collect/shared_region.h"
#include "tracer/probes/probe_session.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Reads the sections of a region's arena, and has probes placed in modules that are loaded
/// meanwhile.
class ArenaReader {
 public:
  /// All must outlive this object. Functions and modules are added to `trace`.
  ArenaReader(const SharedRegion& region, ProbeSession& session, Trace& trace)
      : region_(region), session_(session), table_(texts_.modules, session.modules(), trace) {}

  /// Reads the new sections, and plans probes for the modules loaded since recording began. The
  /// agent waits for them. `has_events` is true once events have been read.
  void read(bool has_events);

  /// Requests the next plan from the agent if the last one is placed.
  void request_plan();

  /// Returns true if an event refers to a module that is being loaded, of which the agent will
  /// write a section soon.
  bool waits_for_module(const recording::Event& raw);

  /// Returns the frames that a thread had when it started the recording, innermost first, once.
  std::vector<recording::InitialFrame> take_initial_stack(std::uint32_t thread);

  struct ProbeCounts {
    std::uint64_t placed = 0;
    std::uint64_t failed = 0;
  };
  ProbeCounts probe_counts() const;

  /// Returns how often each Python function was called; recording::kUncounted if that is unknown.
  std::vector<std::uint32_t> python_calls() const;

  RecordedTexts& texts() { return texts_; }
  const RecordedTexts& texts() const { return texts_; }
  FunctionTable& table() { return table_; }

 private:
  void read_section(recording::SectionKind kind, std::span<const std::byte> bytes);
  void check_last_probes() const;
  void add_initial_stack(std::span<const std::byte> bytes);
  void plan_for_loaded(std::uint32_t reported);

  const SharedRegion& region_;
  ProbeSession& session_;
  RecordedTexts texts_;
  FunctionTable table_;
  std::uint64_t arena_read_ = 0;
  // Index into texts_.probes, and offset of the section.
  std::vector<std::pair<std::size_t, std::uint64_t>> ranges_;
  std::vector<std::uint64_t> python_functions_;  // Offsets of their sections.
  std::size_t probes_added_ = 0;
  std::map<std::uint32_t, std::vector<recording::InitialFrame>> initial_stacks_;  // By gettid.
  std::vector<std::filesystem::path> plans_to_place_;
  std::uint32_t plans_requested_ = 0;
  std::uint32_t modules_reported_ = 0;  // The agent's last value.
  // The agent's modules_put when the arena was last read, and since when an event has waited for a
  // module of which there was no section then.
  std::uint32_t modules_read_ = 0;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  // The number of listed modules that were planned, or present from the start.
  std::optional<std::size_t> modules_known_;
  std::set<std::string> plans_of_loaded_;
};

}  // namespace optrace
