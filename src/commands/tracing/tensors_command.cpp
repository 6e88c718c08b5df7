#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/process/child_process.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "report/tensors/tensors_output.h"
#include "src/commands/command.h"
#include "src/inputs/program_to_run.h"
#include "src/options/common_options.h"
#include "src/options/dry_run_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {
namespace {

// The log of tensors takes an eighth of the memory of a traced process.
constexpr std::uint64_t kUsualTargetBytes = 256ULL << 20;

struct TensorsOptions : AnswerOptions {
  ExaminedProgram program;
  std::string name;
  bool children = false;
  std::uint64_t target_bytes = kUsualTargetBytes;
};

/// Takes `--name NAME` from the begin of the program's own arguments, unless it was given before
/// the program.
void take_name(TensorsOptions& options) {
  std::vector<std::string>& program = options.program.arguments;
  if (!options.name.empty() || program.empty()) return;
  const std::size_t own = program[0] == "-c" || program[0] == "-m" ? 2 : 1;
  if (program.size() <= own) return;
  constexpr std::string_view kOption = "--name";
  const auto first = program.begin() + static_cast<std::ptrdiff_t>(own);
  if (*first == kOption && program.size() > own + 1) {
    options.name = *(first + 1);
    program.erase(first, first + 2);
  } else if (first->starts_with("--name=")) {
    options.name = first->substr(kOption.size() + 1);
    program.erase(first);
  }
}

// Explains why there is nothing to show.
Error no_log(const Trace& trace, const ProgramResult& result) {
  const ExitStatus status = status_after(result);
  if (!trace.meta.warnings.empty()) {
    return {status == ExitStatus::done ? ExitStatus::failed : status,
            "the trace has no record of tensors", trace.meta.warnings[0]};
  }
  if (status != ExitStatus::done) {
    return {status,
            fmt::format("the program failed ({}) before it called an op of torch",
                        describe_wait_status(result.wait_status)),
            "Its own messages give the reason."};
  }
  return {ExitStatus::failed, "the program called no op of torch, so it has no tensors",
          result.had_children ? "It started other processes: --children shows them, too."
                              : "Give a program that calls torch."};
}

// Returns nullopt if the process used no tensor.
std::optional<TensorsAnswer> answer_of(const Trace& trace, const std::string& name) {
  auto log = read_tensor_log(trace);
  if (!log || (log->calls.empty() && log->variables.empty())) return std::nullopt;
  TensorsAnswer answer;
  answer.log = std::move(*log);
  answer.name = name;
  answer.torch = trace.meta.torch.version;
  answer.histories = histories_of(answer.log, name);
  return answer;
}

// Returns an answer for each process that used tensors.
std::vector<TensorsAnswer> answers_of_all(ProgramResult& result, const std::string& name) {
  std::vector<TensorsAnswer> answers;
  for (TracedProcess& process : result.processes) {
    if (!process.problem.empty()) {
      write_message(fmt::format("where the tensors of process {} are is unknown: {}", process.id,
                                process.problem),
                    process.remedy);
    }
    auto answer = process.trace ? answer_of(*process.trace, name) : std::nullopt;
    if (!answer) continue;
    answer->process = process.id;
    answer->rank = process.rank;
    answers.push_back(std::move(*answer));
  }
  if (!answers.empty()) return answers;
  const ExitStatus status = status_after(result);
  throw Error(status == ExitStatus::done ? ExitStatus::failed : status,
              "no process of the program called an op of torch, so there are no tensors",
              "Give a program that calls torch.");
}

std::vector<TensorsAnswer> answers_of(ProgramResult& result, const TensorsOptions& options) {
  if (options.children) return answers_of_all(result, options.name);
  const Trace trace = examined_trace(result, {.unknown = "where its tensors are",
                                              .without = "so it has no tensors",
                                              .remedy = "Give a program that uses torch."});
  auto answer = answer_of(trace, options.name);
  if (!answer) throw no_log(trace, result);
  std::vector<TensorsAnswer> answers;
  answers.push_back(std::move(*answer));
  return answers;
}

void require_name(const std::vector<TensorsAnswer>& answers, const std::string& name) {
  const auto has_histories = [](const TensorsAnswer& one) { return !one.histories.empty(); };
  if (name.empty() || std::ranges::any_of(answers, has_histories)) return;
  std::set<std::string> known;
  for (const TensorsAnswer& answer : answers)
    for (const LoggedVariable& variable : answer.log.variables)
      if (variable.bound) known.insert(printable(full_name(variable)));
  throw Error(ExitStatus::usage,
              fmt::format("no variable '{}' of the program refers to a tensor", printable(name)),
              known.empty() ? "The program has no variable that does."
                            : fmt::format("Those that do: {}.", joined(known, ", ")));
}

void run(TensorsOptions& options) {
  take_name(options);
  CommandOutput output(options.file);
  ProgramRequest request;
  request.tensors = true;
  request.children = options.children;
  request.target_bytes = options.target_bytes;
  ProgramResult result = examine_program(options.program, std::move(request), "optrace tensors");
  const std::vector<TensorsAnswer> answers = answers_of(result, options);
  require_name(answers, options.name);
  std::string text;
  for (const TensorsAnswer& answer : answers) {
    if (options.format == "json") {
      text += options.children ? to_json_line(answer) : to_json(answer);
    } else if (options.name.empty() || !answer.histories.empty()) {
      if (!text.empty()) text += '\n';
      text += to_text(answer, options.style());
    }
  }
  output.write_whole(text);
  output.commit();
  if (const ExitStatus status = status_after(result); status != ExitStatus::done) {
    write_message(fmt::format("the program failed ({})", describe_wait_status(result.wait_status)),
                  "The answer covers what it did until then.");
    throw CommandEnded(status);
  }
}

OptionRows option_rows(TensorsOptions& options) {
  constexpr std::uint64_t kLeast = std::uint64_t{4} << 20U;
  return {
      {"--name", "NAME",
       "Follow this variable of the program: x, f.x for that of a\nfunction f, x[0], x['key'], "
       "self.x, model.fc1.weight.\nDefault: all variables, copies and storages",
       &options.name},
      text_or_json_rows(options.format, "optrace.tensors/1"),
      output_file_row(options.file),
      {"--children", "",
       "Also show the processes that the program starts, each apart;\nwith --format json, one "
       "object per line for each",
       &options.children},
      dry_run_rows(options.program.dry_run),
      {"--target-memory", "SIZE",
       "Maximum memory of optrace in the traced process, an eighth of\nit for the record of "
       "tensors (256M)",
       &options.target_bytes, ByteSize(kLeast)},
      python_row(options.program.python,
                 "The Python that has torch, to run the program. Default: as for\n`optrace run`"),
      terminal_rows(options.terminal),
      program_row(options.program.arguments),
  };
}

}  // namespace

CommandBody tensors_command() {
  return command_body<TensorsOptions>(option_rows, run);
}

}  // namespace optrace
