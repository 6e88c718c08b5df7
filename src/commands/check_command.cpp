#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "indexer/store/index_catalogue.h"
#include "platform/error.h"
#include "report/check/check.h"
#include "report/check/formats/check_output.h"
#include "report/model/json_fields.h"
#include "src/commands/command.h"
#include "src/commands/command_input.h"
#include "src/inputs/local_sources.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"
#include "src/terminal/terminal.h"

namespace optrace {
namespace {

struct CheckCommandOptions {
  std::string input;
  std::vector<std::string> expectations;
  std::string format = "text";
  std::string file;
  TerminalOptions terminal;
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
  const OutputTarget target = options.file.empty() ? standard_output() : OutputTarget{};
  return to_text(results, style_for(options.terminal, target, find_in(LocalSources(report))));
}

void run(const CheckCommandOptions& options) {
  CommandOutput output(options.file);
  const std::vector<Rule> rules = rules_of(options.expectations);
  const CommandInput input = read_input_to_check(options.input);
  const std::optional<Index> index = find_index(text_at(input.report.torch, "version"),
                                                text_at(input.report.torch, "git_version"));
  const KnownNames names(input.traces, index ? &*index : nullptr);
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

}  // namespace

void add_check_command(Command& app) {
  const auto options = std::make_shared<CheckCommandOptions>();
  Command& command = app.add_subcommand("check", "Check what ran against rules, for CI");
  command.footer(
      "Examples:\n"
      "  optrace run --trace t.trace train.py\n"
      "  optrace check t.trace --expect 'never calls *slow_conv*' --expect 'copies <= 12'\n"
      "  optrace check 'conv2d --device cuda' --expect 'conv2d@cuda uses cudnn'\n"
      "  optrace check t.trace --expect rules.yaml --format junit -o optrace.xml\n"
      "Rules: calls NAME [<= N], never calls NAME, OP[@cpu|@cuda] [never] uses BACKEND,\n"
      "ops|kernels|launches|library calls|copies|synchronisations|recompiles|... <= N, no graph "
      "break,\n"
      "no fallback to CPU, no implicit copy, no failure, no kernel of dtype T, no frame without "
      "source,\nno finding [NAME] (`optrace findings` lists them).\n"
      "Exit status: 0 if all rules hold, 1 if one does not, 2 if one can't be decided.");
  command
      .add_positional(
          "TRACE", options->input,
          "A trace (--trace FILE), a report (--format json), or an\nop with its options")
      .required();
  command
      .add_option("--expect", options->expectations,
                  "A rule, or a YAML or JSON file of rules; may be repeated")
      .required()
      .repeated()
      .type_name("RULES");
  command.add_flag(
      "--allow-unknown", options->check.allow_unknown,
      "Treat an unknown name as a function that was not called\ninstead of as an error");
  command
      .add_option("--format", options->format,
                  "text, json (schema optrace.check/1), junit, sarif or github")
      .one_of({"text", "json", "junit", "sarif", "github"})
      .type_name("FORMAT")
      .show_default();
  add_output_file_option(command, options->file);
  add_terminal_options(command, options->terminal);
  command.callback([options] { run(*options); });
}

}  // namespace optrace
