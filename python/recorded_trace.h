#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "report/report.h"
#include "tracer/trace.h"

namespace optrace {

/// A trace and what can be made of it, with the lines of the index that fits its torch best. Its
/// reports are made once. For any number of threads.
class RecordedTrace {
 public:
  explicit RecordedTrace(Trace trace) : trace_(std::move(trace)) {}

  /// `all` as in MergeOptions. Throws Error(usage) for a corrupt trace or index.
  std::shared_ptr<const Report> report(bool all);

  std::string tree(bool all);
  std::string json(bool all);
  std::string html();

  /// A file for `optrace report`.
  void save(const std::filesystem::path& file) const { write_trace(trace_, file); }

 private:
  Trace trace_;
  std::mutex mutex_;
  std::shared_ptr<const Report> reports_[2];
};

}  // namespace optrace
