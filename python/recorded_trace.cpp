#include "python/recorded_trace.h"

#include <optional>
#include <span>
#include <vector>

#include "indexer/store/index_catalogue.h"
#include "platform/error.h"
#include "platform/files/output_sink.h"
#include "report/formats/formats.h"
#include "report/formats/html/html_page.h"
#include "report/formats/writers.h"
#include "report/json/report_json.h"
#include "report/json/saved_report.h"
#include "report/merge/merge.h"
#include "report/merge/trace_index.h"

namespace optrace {

std::unique_ptr<RecordedTrace> RecordedTrace::read(const std::filesystem::path& file) {
  return is_report_file(file) ? std::make_unique<RecordedTrace>(read_report(file))
                              : std::make_unique<RecordedTrace>(read_trace(file));
}

RecordedTrace::~RecordedTrace() = default;

std::shared_ptr<const Report> RecordedTrace::report(bool all) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Report>& made = reports_[all ? 1 : 0];
  if (!made) {
    if (!trace_) {
      throw Error(
          ExitStatus::usage,
          "a report's JSON contains only the frames that were requested when it was written",
          "Load the trace to get all frames, or write the JSON with --all.");
    }
    const std::optional<Index> index = find_index_of(*trace_);
    made = std::make_shared<const Report>(merge(*trace_, index ? &*index : nullptr, {.all = all}));
  }
  return made;
}

std::shared_ptr<const Report> RecordedTrace::with_times() {
  if (!trace_) return report(false);
  const std::optional<Index> index = find_index_of(*trace_);
  return std::make_shared<const Report>(merge(*trace_, index ? &*index : nullptr, {.times = true}));
}

std::vector<CheckResult> RecordedTrace::check(const std::vector<Rule>& rules,
                                              const CheckOptions& options) {
  const std::shared_ptr<const Report> made = report(false);
  const std::optional<Index> index = find_index(made->torch.version, made->torch.git_version);
  const KnownNames names(trace_ ? std::span(&*trace_, 1) : std::span<const Trace>(),
                         index ? &*index : nullptr, made->python_calls);
  return optrace::check(*made, names, rules, options);
}

std::string RecordedTrace::text(bool all) {
  FormatOptions options;
  options.text.all = all;
  return written([&](OutputSink& sink) { to_text(*report(all), options, sink); });
}

std::string RecordedTrace::json(bool all) {
  return written([&](OutputSink& sink) { to_json(*report(all), sink); });
}

std::string RecordedTrace::html() {
  const std::shared_ptr<const Report> shown = with_times();
  return to_notebook_frame(*shown, page_options_of(*shown));
}

void RecordedTrace::save(const std::filesystem::path& file) const {
  if (!trace_) {
    throw Error(ExitStatus::usage, "a report that was loaded from JSON can't be saved as a trace",
                "Keep the JSON from to_json(), or save the trace where it was recorded.");
  }
  write_trace(*trace_, file);
}

}  // namespace optrace
