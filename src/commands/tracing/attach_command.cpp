#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/process/interrupt.h"
#include "platform/text/json_writer.h"
#include "report/details/known_results.h"
#include "src/cache/trace_history.h"
#include "src/commands/command.h"
#include "src/commands/reports/report_command.h"
#include "src/options/common_options.h"
#include "src/options/decision_options.h"
#include "src/options/selection_options.h"
#include "src/terminal/live_table.h"
#include "src/terminal/standard_output.h"
#include "tracer/attach/attach.h"

namespace optrace {
namespace {

struct AttachOptions {
  AttachRequest request;
  OutputOptions output{.usual_format = &report_format("summary")};
  std::string trace_file;
  double duration = 0;  // Seconds; 0: no limit.
  double timeout = 10;
  bool json_lines = false;
  DecisionOptions decisions;
  MemoryOptions memory;
};

/// Writes one line for a program that reads the output (docs/attach.md).
void write_line(const AttachProgress& progress, bool done) {
  nlohmann::ordered_json line = {
      {"schema", "optrace.attach/1"},          {"seconds", progress.time.count()},
      {"events", progress.counted.events},     {"paths", progress.counted.paths},
      {"lost", progress.counted.lost},         {"done", done},
      {"ops", nlohmann::ordered_json::array()}};
  for (const OpCount& op : progress.ops)
    line["ops"].push_back({{"op", op.name}, {"calls", op.calls}});
  write_standard_output(write_json(line) + "\n");
}

/// Writes the trace to the cache, and tells the user where it is. Without a cache, it is not kept.
void cache_trace(const Trace& trace, AttachOptions& options) {
  try {
    const auto file = cached_trace_file(fmt::format("process-{}", options.request.process));
    write_trace(trace, file);
    announce_cached_traces({&file, 1});
    options.trace_file = file;
  } catch (const Error& error) {
    write_message(fmt::format("the trace is not kept: {}", error.what()), error.remedy());
  }
}

void run(AttachOptions& options) {
  AttachRequest& request = options.request;
  request.collector.memory = std::make_shared<MemoryBudget>(options.memory.command);
  request.target_bytes = options.memory.target;
  request.tensors = options.output.tree.tensors;
  if (options.decisions.asked_for()) request.results = known_results_of_torch;
  request.returns_per_site = options.decisions.returns_per_site();
  if (options.duration > 0) request.duration = std::chrono::duration<double>(options.duration);
  request.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000));
  if (options.output.format().needs_timeline()) request.collector.timeline = true;
  require_selection(request.collector.selection);
  require_other_file(options.trace_file, options.output);
  if (!options.trace_file.empty()) const OutputFile trial(options.trace_file);
  if (options.json_lines)
    require_standard_output();
  else
    require_output(options.output);
  AttachResult result;
  std::uint64_t selected_ops = 0;
  {
    const InterruptGuard guard;
    LiveTable table;
    result = attach(
        request, [&table](std::string_view step) { table.show_step(step); },
        [&](const AttachProgress& progress, bool done) {
          selected_ops = progress.counted.ops;
          if (options.json_lines)
            write_line(progress, done);
          else if (!done)
            table.show(progress);
        });
  }
  if (!result.ended.empty()) write_message(result.ended);
  if (selected_ops == 0) warn_of_empty_selection(request.collector.selection);
  add_processor_time(result.trace.meta);
  if (options.trace_file.empty())
    cache_trace(result.trace, options);
  else
    write_trace(result.trace, options.trace_file);
  if (!options.trace_file.empty()) options.output.tree.trace_files = {options.trace_file};
  if (!options.json_lines || !options.output.file.empty())
    write_report({&result.trace, 1}, options.output);
}

OptionRows option_rows(AttachOptions& options) {
  CollectorOptions& collector = options.request.collector;
  return {
      {"PID",
       "",
       "The process, as ps shows it",
       &options.request.process,
       {.required = true, .allowed = WholeNumber(1)}},
      ops_row(collector.selection),
      at_most_one_of(
          "Until", {count_row(collector.selection),
                    {"--duration", "SECONDS", "Trace for this time", &options.duration, Seconds()},
                    {"--until-op", "PATTERN",
                     "Trace until an op of this name is called; * matches any\ncharacters",
                     &options.request.until_op}}),
      {"--timeout",
       "SECONDS",
       "How long to wait until the process's Python can be\ninterrupted",
       &options.timeout,
       {.allowed = Seconds{}, .usual = fmt::format("{}", options.timeout)}},
      memory_rows(options.memory),
      decisions_row(options.decisions),
      {"--json-lines", "",
       "Write the counts as a line of JSON each second instead of the\nreport, which -o still "
       "writes",
       &options.json_lines},
      {"--timeline", "", "Keep every call in the trace, not only counts", &collector.timeline},
      {"--trace", "FILE",
       "Save the trace for `optrace report`. Default: the cache, which\nkeeps those of the last "
       "20 programs",
       &options.trace_file},
      output_rows(options.output),
  };
}

}  // namespace

CommandBody attach_command() {
  return command_body<AttachOptions>(option_rows, run);
}

}  // namespace optrace
