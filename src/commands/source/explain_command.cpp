#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lookup/explain/explain.h"
#include "lookup/explain/explain_output.h"
#include "lookup/locate/op_spelling.h"
#include "lookup/why_not/why_not_output.h"
#include "platform/error.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "pytorch/names/op_name.h"
#include "src/commands/command.h"
#include "src/commands/source/explain_backend.h"
#include "src/commands/source/explain_program.h"
#include "src/inputs/local_sources.h"
#include "src/inputs/program_to_run.h"
#include "src/inputs/selected_index.h"
#include "src/options/common_options.h"
#include "src/options/dry_run_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/input_lines.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

struct ExplainOptions : AnswerOptions {
  std::string op;
  std::optional<std::string> overload;
  std::optional<std::string> device;
  std::string python;
  bool all = false;
  std::optional<std::string> why_not;  // A backend.
  std::optional<std::string> call;     // Whose results are shown with it.
  bool compiled = false;               // Explain a program instead of an op.
  std::vector<std::string> program;    // With its arguments; empty unless `compiled` is set.
  DryRunOptions dry_run;
};

std::string overload_names(const std::vector<std::string>& overloads) {
  std::vector<std::string> names;
  names.reserve(overloads.size());
  for (const std::string& one : overloads) {
    const OpName name = split_op_name(one);
    names.push_back(name.overload.empty() ? "default" : name.overload);
  }
  return joined(names, ", ");
}

SpelledOp find_op(const SourceIndexes& index, const std::string& spelling,
                  const std::optional<std::string>& asked_overload) {
  if (spelling.empty() || spelling.size() > kMaxOpNameLength) {
    throw Error(ExitStatus::usage,
                spelling.empty() ? "no op given" : "the op's name is longer than that of any op",
                "Give the name of an op: `optrace explain conv2d`.");
  }
  SpelledOp spelled = find_spelled_op(index, spelling);
  if (spelled.name.empty()) {
    throw Error(
        ExitStatus::usage,
        fmt::format("PyTorch {} has no op {}", index.torch().torch_version(), printable(spelling)),
        spelled.near.empty() ? "Use a name of PyTorch: conv2d, aten::add.Tensor, nn.Linear."
                             : fmt::format("Did you mean {}?", joined(spelled.near, ", ")));
  }
  const std::string overload = asked_overload.value_or("");
  if (overload.empty()) return spelled;
  const std::string packet = split_op_name(spelled.name).packet();
  const std::string full = overload == "default" ? packet : fmt::format("{}.{}", packet, overload);
  for (const std::string& one : spelled.overloads) {
    if (one != full) continue;
    spelled.name = one;
    spelled.chosen_by_user = true;
    return spelled;
  }
  throw Error(ExitStatus::usage, fmt::format("{} has no overload {}", packet, printable(overload)),
              fmt::format("Its overloads are: {}.", overload_names(spelled.overloads)));
}

std::vector<std::string> devices_of(const ExplainOptions& options) {
  return options.device ? std::vector<std::string>{*options.device} : default_devices();
}

std::string rendered(const Explanation& explanation, const SelectedIndex& choice,
                     const ExplainOptions& options) {
  const IndexedSource source = source_of(choice);
  if (options.format == "json") return to_json(explanation, source);
  ExplainTextOptions text;
  text.all = options.all;
  text.style = options.style(find_in(LocalSources(choice)));
  return to_text(explanation, source, text);
}

std::string why_not_answer(const SourceIndexes& index, const std::string& op,
                           const std::string& backend, const SelectedIndex& choice,
                           const ExplainOptions& options) {
  const BackendAnswer answer =
      answer_why_not(index, {.op = op,
                             .backend = backend,
                             .call = options.call.value_or(""),
                             .devices = options.device ? std::vector<std::string>{*options.device}
                                                       : std::vector<std::string>(),
                             .all = options.all});
  const ObservedCall* const call = answer.call ? &*answer.call : nullptr;
  const IndexedSource source = source_of(choice);
  if (options.format == "json") return to_json(answer.why_not, call, source);
  return to_text(answer.why_not, call, source, options.style(find_in(LocalSources(choice))));
}

void explain_one(const ExplainOptions& options) {
  CommandOutput output(options.file);
  SelectedIndex choice = choose_index(options.python);
  print_notices(choice);
  const std::string name =
      find_op({choice.index, choice.projects}, options.op, options.overload).name;
  index_on_demand({name}, options.python, choice);
  print_notices(choice);
  const SourceIndexes index(choice.index, choice.projects);
  const SpelledOp spelled = find_op(index, options.op, options.overload);
  output.write_whole(
      !options.why_not
          ? rendered(explain(index, spelled, options.op, devices_of(options)), choice, options)
          : why_not_answer(index, spelled.name, *options.why_not, choice, options));
  output.commit();
}

void explain_lines(const ExplainOptions& options) {
  CommandOutput output(options.file);
  SelectedIndex choice = choose_index(options.python);
  print_notices(choice);
  const SourceIndexes index(choice.index, choice.projects);
  const IndexedSource source = source_of(choice);
  const auto lines = std::make_unique<InputLines>(kMaxOpNameLength);
  while (const auto line = lines->next()) {
    std::string answer;
    try {
      const SpelledOp spelled = find_op(index, line->text, options.overload);
      answer = to_json_line(explain(index, spelled, line->text, devices_of(options)), source);
    } catch (const Error& error) {
      answer = error_to_json_line(line->text, error.what(), error.remedy());
    }
    if (!output.write(answer)) return;
  }
  output.commit();
}

// Throws Error(usage) if one of the options does not fit --why-not, or needs it.
void refuse_without_backend(const ExplainOptions& options) {
  if (!options.why_not) {
    if (options.call)
      throw Error(ExitStatus::usage, "--call shows what the predicates of --why-not returned",
                  "Name a backend, too: `optrace explain conv2d --why-not cudnn --call conv2d`.");
    return;
  }
  if (options.why_not->empty())
    throw Error(ExitStatus::usage, "--why-not needs the name of a backend",
                "For example: `optrace explain conv2d --why-not cudnn`.");
  if (options.why_not->size() > kMaxOpNameLength)
    throw Error(ExitStatus::usage, "the backend's name is longer than that of any backend",
                "For example: `optrace explain conv2d --why-not cudnn`.");
  if (options.op == "-")
    throw Error(ExitStatus::usage, "--why-not explains one op, not the names on standard input",
                "Name the op: `optrace explain conv2d --why-not cudnn`.");
}

struct GivenOption {
  const char* name;
  bool given;
};

void refuse(std::initializer_list<GivenOption> options, const char* what, const char* remedy) {
  for (const GivenOption& one : options)
    if (one.given) throw Error(ExitStatus::usage, fmt::format("{} {}", one.name, what), remedy);
}

// Throws Error(usage) if one of the options is for the other kind of answer.
void refuse_options(const ExplainOptions& options) {
  if (!options.compiled) {
    refuse({{"--dry-run", options.dry_run.asked_for()},
            {"--devices", options.dry_run.devices.has_value()}},
           "is for programs, and explaining an op runs nothing",
           "Explain a program: `optrace explain --compiled --dry-run train.py`.");
    refuse_without_backend(options);
    return;
  }
  if (!options.op.empty())
    throw Error(ExitStatus::usage, "--compiled comes before the program, whose own options follow",
                "Write `optrace explain --compiled train.py`.");
  refuse({{"--overload", options.overload.has_value()},
          {"--device", options.device.has_value()},
          {"--all", options.all},
          {"--why-not", options.why_not.has_value()},
          {"--call", options.call.has_value()}},
         "is for ops, and --compiled explains a program", "Omit one of the two.");
}

void explain_compiled(const ExplainOptions& options) {
  explain_program({.program = {.arguments = options.program,
                               .dry_run = options.dry_run,
                               .python = options.python},
                   .answer = options});
}

void run(const ExplainOptions& options) {
  refuse_options(options);
  if (options.compiled)
    explain_compiled(options);
  else if (options.op == "-")
    explain_lines(options);
  else
    explain_one(options);
}

std::string problem_with_device(const std::string& device) {
  return dispatch_key_of_device(device).empty() ? fmt::format("{} is not a device", device)
                                                : std::string();
}

OptionRows option_rows(ExplainOptions& options) {
  return {
      {"OP", "",
       "An op in any of PyTorch's spellings: conv2d, nn.Conv2d,\nF.conv2d, torch.conv2d, "
       "Tensor.add_, aten::add.Tensor;\nor - for standard input",
       &options.op, kRequired},
      {"--overload", "NAME", "The overload to explain: Tensor, out, default", &options.overload},
      {"--device", "DEVICE", "Only this device: cpu, cuda, meta, mps, xpu, ...", &options.device,
       problem_with_device},
      text_or_json_row(options.format, "optrace.explain/1"),
      output_file_row(options.file),
      {"--all", "", "Show every dispatch key and every call path; with\n--why-not, every predicate",
       &options.all},
      {"--why-not", "BACKEND",
       "Instead, show the functions that decide whether the op runs\non a backend: cudnn, mkldnn, "
       "flash, efficient, miopen, ...",
       &options.why_not},
      {"--call", "CALL",
       "With --why-not, also show what these functions returned in a\ncall: a trace, a report, or "
       "a command in quotes that makes it,\n'conv2d --dtype float64'",
       &options.call},
      terminal_rows(options.terminal),
      python_row(options.python, kSearchedPython),
      {"--compiled", "",
       "Run the program that follows, without probes, and show\nwhat torch.compile makes of it: "
       "graphs, graph breaks,\nrecompilations, and what is fused into each kernel",
       &options.compiled},
      dry_run_rows(options.dry_run),
      program_row(options.program, "--compiled"),
  };
}

}  // namespace

CommandBody explain_command() {
  return command_body<ExplainOptions>(option_rows, run);
}

}  // namespace optrace
