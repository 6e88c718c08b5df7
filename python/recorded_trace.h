#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "report/check/check.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A trace and what can be made of it, with the lines of the index that fits its torch best; or a
/// report that was made of one before. Reports are made once. For any number of threads.
class RecordedTrace {
 public:
  explicit RecordedTrace(Trace trace) : trace_(std::move(trace)) {}
  explicit RecordedTrace(Report report)
      : reports_{std::make_shared<const Report>(std::move(report)), nullptr} {}

  /// A trace, or a report's JSON. Throws Error(usage) for a file that is neither.
  static std::unique_ptr<RecordedTrace> read(const std::filesystem::path& file);

  /// `all` as in MergeOptions. Throws Error(usage) for a corrupt trace or index, and for all of
  /// what was a report already.
  std::shared_ptr<const Report> report(bool all);

  /// Throws as report() does.
  std::vector<CheckResult> check(const std::vector<Rule>& rules, const CheckOptions& options);

  std::string tree(bool all);
  std::string json(bool all);
  std::string html();

  /// A file for `optrace report`. Throws Error(usage) for what was a report already.
  void save(const std::filesystem::path& file) const;

 private:
  std::optional<Trace> trace_;  // None for what was a report already.
  std::mutex mutex_;
  std::shared_ptr<const Report> reports_[2];
};

}  // namespace optrace
