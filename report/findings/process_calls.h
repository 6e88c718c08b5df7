#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Calls by the process that made them: its position in the report's list.
using CallsByProcess = std::map<std::size_t, double>;

/// Tells how the calls of a report's frames are distributed over its processes. If any process has
/// a rank, those without one only start the others, and are not counted; those of one rank count as
/// one.
class ProcessCalls {
 public:
  /// The report must outlive the object.
  explicit ProcessCalls(const Report& report);

  /// Adds `calls` calls of a frame that these processes took; null for all of them. Of a part of a
  /// frame's calls, each process is taken to have made the same part of its own.
  void add(const Frame& frame, const ProcessShare* taken_by, std::uint64_t calls,
           CallsByProcess& sums) const;

  std::size_t count(const ProcessShare* taken_by) const {
    return taken_by == nullptr ? all_.size() : taken_by->processes.size();
  }

  /// Returns `3 of 4 ranks`; empty for a report of one process.
  std::string among_all(std::size_t some) const;

 private:
  std::vector<std::size_t> positions(const std::vector<std::uint64_t>& names, bool by_rank) const;

  const std::vector<ReportProcess>& processes_;
  std::vector<std::size_t> all_;
  std::map<std::uint64_t, std::size_t> by_rank_, by_id_;
};

}  // namespace optrace
