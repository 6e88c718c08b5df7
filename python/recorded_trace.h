#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/exported.h"
#include "report/check/check.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A trace and the reports made from it, with source lines from the index that best matches its
/// torch; or a report that was loaded. Each report is made once. Thread-safe.
class OPTRACE_EXPORTED RecordedTrace {
 public:
  explicit RecordedTrace(Trace trace) : trace_(std::move(trace)) {}
  explicit RecordedTrace(Report report)
      : reports_{std::make_shared<const Report>(std::move(report)), nullptr} {}
  ~RecordedTrace();
  RecordedTrace(const RecordedTrace&) = delete;
  RecordedTrace& operator=(const RecordedTrace&) = delete;

  /// Reads a trace or a JSON report. Throws Error(usage) for any other file.
  static std::unique_ptr<RecordedTrace> read(const std::filesystem::path& file);

  /// `all` as in MergeOptions. Throws Error(usage) for a corrupt trace or index, and if `all` is
  /// true for a report that was loaded.
  std::shared_ptr<const Report> report(bool all);

  /// Throws as report() does.
  std::vector<CheckResult> check(const std::vector<Rule>& rules, const CheckOptions& options);

  std::string text(bool all);
  std::string json(bool all);
  /// Returns the interactive page in a frame, for a notebook.
  std::string html();

  /// Writes a file for `optrace report`. Throws Error(usage) for a report that was loaded.
  void save(const std::filesystem::path& file) const;

 private:
  // The report with times, if they were recorded.
  std::shared_ptr<const Report> with_times();

  std::optional<Trace> trace_;  // Empty for a report that was loaded.
  std::mutex mutex_;
  std::shared_ptr<const Report> reports_[2];
};

}  // namespace optrace
