#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "indexer/store/index_catalogue.h"
#include "platform/error.h"
#include "report/check/check.h"
#include "report/check/formats/check_output.h"
#include "src/commands/command.h"
#include "src/commands/tracing/command_input.h"
#include "src/inputs/local_sources.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

struct CheckCommandOptions : AnswerOptions {
  std::string input;
  std::vector<std::string> expectations;
  CheckOptions check;
};

std::vector<Rule> rules_of(const std::vector<std::string>& expectations) {
  std::vector<Rule> rules;
  for (const std::string& expectation : expectations)
    for (Rule& rule : expected_rules(expectation)) rules.push_back(std::move(rule));
  return rules;
}

std::string render(const CheckCommandOptions& options, const Report& report,
                   const std::vector<CheckResult>& results) {
  if (options.format == "json") return to_json(report, results);
  if (options.format == "junit") return to_junit(results);
  if (options.format == "sarif") return to_sarif(results);
  if (options.format == "github") return to_github(results);
  return to_text(results, options.style(find_in(LocalSources(report))));
}

void run(const CheckCommandOptions& options) {
  CommandOutput output(options.file);
  const std::vector<Rule> rules = rules_of(options.expectations);
  const CommandInput input = read_input_to_check(options.input);
  const TorchBuild& torch = input.report.torch;
  const std::optional<Index> index = find_index(torch.version, torch.git_version);
  const KnownNames names(input.traces, index ? &*index : nullptr, input.report.python_calls);
  const std::vector<CheckResult> results = check(input.report, names, rules, options.check);
  const std::string text = render(options, input.report, results);
  if (options.format == "github")
    output.write_commands(text);
  else
    output.write(text);
  output.commit();
  switch (status_of(results)) {
    case CheckResult::Status::passed:
      return;
    case CheckResult::Status::failed:
      throw CommandEnded(ExitStatus::differs);
    case CheckResult::Status::error:
      if (options.file.empty()) throw CommandEnded(ExitStatus::usage);
      for (const CheckResult& result : results) {
        if (result.status != CheckResult::Status::error) continue;
        throw Error(ExitStatus::usage,
                    fmt::format("'{}' can't be decided: {}", printable(result.rule.text),
                                printable(result.found)),
                    result.remedy);
      }
  }
}

OptionRows option_rows(CheckCommandOptions& options) {
  return {
      {"TRACE", "", "A trace (--trace FILE), a report (--format json), or an\nop with its options",
       &options.input, kRequired},
      {"--expect",
       "RULES",
       "A rule, or a YAML or JSON file of rules; may be repeated",
       &options.expectations,
       {.required = true, .several = SeveralValues::each_time_unmarked}},
      {"--allow-unknown", "",
       "Treat an unknown name as a function that was not called\ninstead of as an error",
       &options.check.allow_unknown},
      {"--all", "", "Also count ops called while torch's modules are imported\nor code is compiled",
       &options.check.all},
      format_row(options.format,
                 {{"text"}, {"json", "schema optrace.check/1"}, {"junit"}, {"sarif"}, {"github"}}),
      output_file_row(options.file),
      terminal_rows(options.terminal),
  };
}

}  // namespace

CommandBody check_command() {
  return command_body<CheckCommandOptions>(option_rows, run);
}

}  // namespace optrace
