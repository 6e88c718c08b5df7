#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/job/merged_processes.h"
#include "report/merge/report_path.h"
#include "report/model/report_reader.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Says which processes took the frames of a merged trace, and how often if they differ.
class FrameProcesses {
 public:
  /// The trace must outlive the object.
  FrameProcesses(const Trace& trace, MergedProcesses merged);

  /// Returns the list of all processes, for the report.
  std::vector<ReportProcess> processes() const;

  /// Adds to a frame's detail the processes that took its path, if not all did (all ranks, if there
  /// are any), and those that took it another number of times than most. `index` is that of the
  /// path in the report, after those of the calls before. `parent` is null for a root.
  void describe(const ReportPath& path, std::uint32_t index, const Frame* parent, Frame& frame);

  /// Returns a sentence for every group of processes that differ in the same way: with the first
  /// frame in which they do, and how many more there are.
  std::vector<std::string> differences() const;

 private:
  struct PathProcesses {
    std::uint32_t participants = 0;  // A set.
    std::uint32_t pattern = kNone;   // kNone if the processes took it equally often.
  };
  struct Difference {
    std::string what;
    std::size_t more = 0;
  };

  bool have_ranks(const ProcessSet& processes) const;
  std::vector<std::uint64_t> names(const ProcessSet& processes, bool by_rank) const;
  std::string named(const ProcessSet& processes) const;
  std::uint32_t pattern_of(const ReportPath& path, const Frame& frame, std::uint32_t& participants);
  void describe_calls(std::uint32_t pattern, ProcessShare& share);
  std::string frequencies(std::uint32_t pattern) const;
  bool took_all(std::uint32_t participants);
  std::vector<ProcessSet> unusual(std::uint32_t pattern) const;
  bool may_list(const ProcessSet& processes);

  const Trace& trace_;
  MergedProcesses merged_;
  std::uint32_t all_ = 0;             // The set of all ranks; of all processes, if none has a rank.
  std::vector<PathProcesses> paths_;  // By path of the report.
  std::size_t names_left_;            // Limits the memory of the lists in frames.
  std::map<ProcessSet, Difference> taken_by_;  // By the only processes that took the paths.
  // By the processes that took the paths another number of times than most; empty if the number is
  // not exact.
  std::map<std::vector<ProcessSet>, Difference> uneven_;
};

}  // namespace optrace
