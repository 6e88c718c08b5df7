#pragma once

#include <memory>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Combines the reports of several processes of one job: a path that several processes took becomes
/// one frame, with their calls added up. If not all processes took a path, its frames' detail lists
/// those that did ("ranks", or "processes" if a process has no rank). `processes` lists all
/// processes, and meta["differences"] has a sentence for every group of processes with paths that
/// the others did not take. A single report is returned unchanged. Throws Error(usage) if the
/// reports are of different torches.
Report combine(std::vector<Report> reports);

/// Combines reports like combine(), one after another. Its memory grows with the number of distinct
/// paths, not with that of the reports.
class Combination {
 public:
  Combination();
  ~Combination();
  Combination(const Combination&) = delete;
  Combination& operator=(const Combination&) = delete;

  /// Adds a report. Throws Error(usage) if its torch is not that of the first one.
  void add(Report report);

  /// Returns the combined report, once.
  Report take();

 private:
  friend Report join(std::vector<Report> reports);
  class State;
  std::unique_ptr<State> state_;
};

/// Same as combine(), but keeps the frames of each process separate, with all of their detail.
Report join(std::vector<Report> reports);

}  // namespace optrace
