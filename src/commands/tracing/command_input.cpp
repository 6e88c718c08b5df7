#include "src/commands/tracing/command_input.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/printable_text.h"
#include "report/job/join.h"
#include "report/json/saved_report.h"
#include "report/merge/merge.h"
#include "report/merge/trace_index.h"
#include "src/commands/reports/job_traces.h"
#include "src/commands/tracing/traced_command.h"

namespace optrace {
namespace {

/// Makes one tree of the traces of several processes.
CommandInput merged_input(std::vector<Trace> traces, bool times) {
  CommandInput input{{}, std::move(traces)};
  const std::optional<Index> index = find_index_of(input.traces.front(), nullptr);
  const MergeOptions options{.times = times};
  input.report = input.traces.size() == 1
                     ? merge(input.traces.front(), index ? &*index : nullptr, options)
                     : merge(merge_traces(input.traces), index ? &*index : nullptr, options);
  return input;
}

/// Keeps the trees of several processes apart.
CommandInput joined_input(std::vector<Trace> traces) {
  CommandInput input{{}, std::move(traces)};
  const std::optional<Index> index = find_index_of(input.traces.front(), nullptr);
  std::vector<Report> reports;
  reports.reserve(input.traces.size());
  for (const Trace& trace : input.traces)
    reports.push_back(merge(trace, index ? &*index : nullptr, {}));
  input.report = join(std::move(reports));
  return input;
}

/// Returns the traces of the other processes of a job, which the trace of its first process names.
std::vector<std::filesystem::path> traces_beside(const std::filesystem::path& trace,
                                                 const TraceMeta& meta) {
  std::vector<std::filesystem::path> traces;
  for (const std::filesystem::path file : meta.other_traces) {
    if (file.empty() || file != file.filename()) continue;  // Only files in the same folder.
    if (!std::filesystem::exists(trace.parent_path() / file)) {
      throw Error(ExitStatus::usage,
                  fmt::format("{} refers to {}, the trace of another process, which does not exist",
                              trace.string(), printable(file.string())),
                  "Keep the traces of a job in one folder, or trace it again.");
    }
    traces.push_back(trace.parent_path() / file);
  }
  return traces;
}

/// Returns a trace with those of the other processes of its job.
std::vector<Trace> read_traces_of_job(const std::string& file) {
  std::vector<Trace> traces;
  traces.push_back(read_trace(file, TraceParts::without_events));
  for (const std::filesystem::path& other : traces_beside(file, traces.front().meta))
    traces.push_back(read_trace(other, TraceParts::without_events));
  return traces;
}

/// Returns true if an input names a file, existing or not, rather than a command: no op's name
/// contains a slash or ends like an optrace file.
bool names_file(const std::string& input) {
  if (std::error_code ignored; std::filesystem::exists(input, ignored)) return true;
  const std::string_view first_word = std::string_view(input).substr(0, input.find(' '));
  return first_word.find('/') != std::string_view::npos || input.ends_with(".json") ||
         input.ends_with(".trace");
}

}  // namespace

CommandInput read_input_file(const std::string& file, bool times) {
  if (is_report_file(file)) return {read_report(file), {}};
  return merged_input(read_traces_of_job(file), times);
}

CommandInput read_input(const std::string& text, bool times) {
  return names_file(text) ? read_input_file(text, times) : merged_input(trace_command(text), times);
}

CommandInput read_input_to_check(const std::string& text) {
  if (!names_file(text)) return joined_input(trace_command(text));
  if (is_report_file(text)) return {read_report(text), {}};
  return joined_input(read_traces_of_job(text));
}

}  // namespace optrace
