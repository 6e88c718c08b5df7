#include <optional>
#include <string>
#include <vector>

#include "report/findings/findings_output.h"
#include "report/merge/merge.h"
#include "report/merge/trace_index.h"
#include "src/commands/command.h"
#include "src/commands/reports/job_traces.h"
#include "src/inputs/local_sources.h"
#include "src/options/common_options.h"
#include "src/options/finding_options.h"
#include "src/terminal/command_output.h"

namespace optrace {
namespace {

struct FindingsCommandOptions : AnswerOptions {
  std::vector<std::string> traces;
  FindingOptions findings;
};

Report report_with_times(const std::vector<std::string>& files) {
  const Trace trace = files.size() == 1 ? read_trace(files[0], TraceParts::without_events)
                                        : merge_trace_files(files);
  const std::optional<Index> index = find_index_of(trace, nullptr);
  return merge(trace, index ? &*index : nullptr, {.times = true});
}

std::string answer(const FindingsCommandOptions& options) {
  const bool json = options.format == "json";
  if (options.traces.empty()) return json ? rules_json() : rules_text(options.style());
  const Report report = report_with_times(options.traces);
  const std::vector<Finding> findings = find(report, options.findings);
  return json ? to_json(findings) : to_text(findings, options.style(find_in(LocalSources(report))));
}

void run(const FindingsCommandOptions& options) {
  CommandOutput output(options.file);
  output.write_whole(answer(options));
  output.commit();
}

OptionRows option_rows(FindingsCommandOptions& options) {
  return {
      {"TRACE", "", "Files written by --trace FILE or by `optrace merge`;\nnone: list the rules",
       &options.traces},
      text_or_json_row(options.format, "optrace.findings/1"),
      ignore_row(options.findings),
      output_file_row(options.file),
      terminal_rows(options.terminal),
  };
}

}  // namespace

CommandBody findings_command() {
  return command_body<FindingsCommandOptions>(option_rows, run);
}

}  // namespace optrace
