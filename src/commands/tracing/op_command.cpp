#include "src/commands/tracing/op_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string_view>

#include <fmt/core.h>

#include "lookup/locate/locate.h"
#include "lookup/locate/op_spelling.h"
#include "lookup/locate/source_indexes.h"
#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/process/interrupt.h"
#include "platform/text/ascii_text.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/progress_display.h"
#include "report/details/known_results.h"
#include "src/command_line/command_line.h"
#include "src/commands/command.h"
#include "src/commands/meant_words.h"
#include "src/commands/reports/report_command.h"
#include "src/inputs/python_choice.h"
#include "src/inputs/selected_index.h"
#include "src/options/common_options.h"
#include "src/options/dry_run_options.h"
#include "src/options/tensor_options.h"
#include "tracer/launch/op_tracer.h"

namespace optrace {
namespace {

struct OpOptions {
  OutputOptions output;
  std::string op;
  std::string device;  // Empty: cpu, unless a dry run is asked for.
  DryRunOptions dry_run;
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes;
  std::string input;  // Empty: that of a sample.
  bool requires_grad = false;
  bool backward = false;
  bool compile = false;
  std::string trace_file;
  bool timeline = false;
  std::string probes = "jump";
  std::string python;
  unsigned timeout = 300;  // Seconds.
};

/// Checks that the result can be written before the work starts.
void require_writable(const std::string& path) {
  if (!path.empty()) const OutputFile trial(path);
}

/// Returns the call to make, checked as far as possible without torch.
OpCall call_of(const OpOptions& options) {
  OpCall call;
  call.op = options.op;
  call.backward = options.backward;
  call.requires_grad = options.requires_grad;
  call.compile = options.compile;
  for (const std::string& shape : options.shapes) call.shapes.push_back(parse_shape(shape));
  for (const std::string& dtype : options.dtypes) call.dtypes.push_back(parse_dtype(dtype));
  if (!options.input.empty()) call.input = options.input;
  if (call.input && !call.shapes.empty()) {
    throw Error(ExitStatus::usage, "--input and --shape can't be combined",
                "Give the shapes in --input: 'torch.randn(2, 3)'.");
  }
  // In bytes; no command line needs a longer one.
  constexpr std::size_t kMaxInputLength = 100'000;
  if (call.input && call.input->size() > kMaxInputLength) {
    throw Error(ExitStatus::usage, "--input is too long for the arguments of a call",
                "Trace a program that makes the call with `optrace run`.");
  }
  return call;
}

/// Removes the events and keeps the counts.
void drop_timeline(Trace& trace) {
  for (ThreadRecord& thread : trace.threads) {
    thread.initial_stack.clear();
    thread.events.clear();
  }
}

/// Returns the device of the op, cpu or cuda.
std::string device_of(const OpOptions& options) {
  if (options.device == "cpu" && options.dry_run.asked_for()) {
    throw Error(ExitStatus::usage, "--dry-run emulates a GPU, and --device cpu uses none",
                "Omit one of the two.");
  }
  if (!options.device.empty()) return options.device;
  return options.dry_run.asked_for() ? "cuda" : "cpu";
}

/// Throws Error(usage) for a name that no op can have.
void require_op(const OpOptions& options) {
  if (options.op.empty() || options.op.size() > kMaxOpNameLength) {
    throw Error(ExitStatus::usage,
                options.op.empty() ? "no op given" : "the op's name is longer than that of any op",
                "Give the name of an op: `optrace conv2d`. `optrace --help` has examples.");
  }
}

/// Returns the options for the op's call and device in a form that can be typed again. --backward
/// is left out because the trace records it.
std::vector<std::string> words_of(const OpOptions& options) {
  const OpOptions usual;
  std::vector<std::string> words;
  const auto add = [&words](const char* name, const std::string& value) {
    words.emplace_back(name);
    words.push_back(value);
  };
  if (!options.device.empty()) add("--device", options.device);
  if (options.dry_run.asked_for()) words.push_back("--dry-run=" + options.dry_run.gpu_model);
  if (const unsigned devices = options.dry_run.devices.value_or(1); devices != 1)
    add("--devices", std::to_string(devices));
  for (const std::string& shape : options.shapes) add("--shape", shape);
  for (const std::string& dtype : options.dtypes) add("--dtype", dtype);
  if (!options.input.empty()) add("--input", options.input);
  if (options.requires_grad) words.emplace_back("--requires-grad");
  if (options.compile) words.emplace_back("--compile");
  if (options.probes != usual.probes) add("--probes", options.probes);
  if (!options.python.empty()) add("--python", options.python);
  if (options.timeout != usual.timeout) add("--timeout", std::to_string(options.timeout));
  return words;
}

/// Returns true if an index of the torch in use can decide whether a spelling is valid: for a
/// single word or a name of the Python API. OpInfo's variants, constructor calls and ops that a
/// program registers can only be resolved by torch.
bool index_can_tell(std::string_view spelling) {
  const bool is_name = std::ranges::all_of(spelling, [](char letter) {
    return is_word_character(letter) || letter == '.' || letter == ':';
  });
  constexpr std::string_view kSpaces[] = {"torch.", "nn.", "F.", "Tensor.", "aten::"};
  const bool is_word = spelling.find_first_of(".:") == std::string_view::npos;
  return is_name && (is_word || std::any_of(std::begin(kSpaces), std::end(kSpaces),
                                            [&](std::string_view space) {
                                              return spelling.starts_with(space);
                                            }));
}

/// Throws Error(usage) for a misspelt op: a name that the index lacks and that is similar to one it
/// has. This saves the seconds that Python and torch take to start.
void refuse_misspelt(const OpOptions& options) {
  if (!index_can_tell(options.op)) return;
  std::optional<SelectedIndex> choice;
  try {
    choice.emplace(choose_index(options.python));
  } catch (const Error&) {
    return;  // Errors of Python or of the index are reported where they are needed.
  }
  if (!choice->exact || !choice->torch) return;
  const SourceIndexes index(choice->index, choice->projects);
  const SpelledOp spelled = find_spelled_op(index, options.op);
  if (!spelled.name.empty() || Locator(choice->index).knows_python_name(options.op)) return;
  std::vector<std::string> near = spelled.near;
  // The prefix is kept, since other ops may have the same name without it.
  for (const std::string_view space : {std::string_view("aten::"), std::string_view("Tensor.")})
    if (options.op.starts_with(space))
      for (std::string& name : near)
        if (name.find("::") == std::string::npos) name.insert(0, space);
  std::string remedy;
  if (const std::string command = command_meant(options.op); !command.empty())
    remedy = fmt::format("Did you mean the command `optrace {}`?", command);
  else if (!near.empty())
    remedy = fmt::format("Did you mean {}?", joined(near, ", "));
  if (remedy.empty()) return;
  throw Error(ExitStatus::usage,
              fmt::format("'{}' is not an op, function or module of torch {}",
                          printable(options.op), choice->torch->version),
              remedy);
}

/// Traces the call and returns its trace. Shows progress on a terminal, and the output of the call.
Trace trace_op(const OpOptions& options, const PythonChoice& python) {
  LaunchRequest request;
  request.call = call_of(options);
  request.python = python.path;
  request.python_reason = python.reason;
  request.device = device_of(options);
  request.tensors = options.output.tree.tensors;
  request.probes = options.probes == "int3" ? ProbeMode::trap : ProbeMode::jump;
  request.results = known_results(python.path);
  request.timeout = std::chrono::seconds(options.timeout);
  LaunchResult result;
  {
    const InterruptGuard guard;
    ProgressDisplay display;
    if (request.device == "cuda" && (options.dry_run.asked_for() || !has_gpu())) {
      request.dry_run =
          prepare_dry_run(python.path, options.dry_run.emulated_devices(),
                          [&display](std::string_view step) { display.show_step(step); });
    }
    result = launch(request, [&display](std::string_view step) { display.show_step(step); });
  }
  InterruptGuard::throw_if_interrupted();
  std::fwrite(result.printed.data(), 1, result.printed.size(), stderr);
  if (!options.timeline) drop_timeline(result.trace);
  result.trace.meta.options = words_of(options);
  describe_choice(python, result.trace);
  return std::move(result.trace);
}

void run_op(OpOptions& options) {
  require_op(options);
  refuse_misspelt(options);
  (void)call_of(options);  // Reports an invalid call before searching for Python.
  const PythonChoice python = choose_python(options.python);
  require_output(options.output);
  require_writable(options.trace_file);
  require_other_file(options.trace_file, options.output);
  if (options.output.format().needs_timeline()) options.timeline = true;
  if (options.timeline && options.trace_file.empty() && !options.output.format().shows_timeline()) {
    throw Error(ExitStatus::usage,
                "--timeline keeps every call in the trace, and no trace is saved",
                "Also name a file with --trace FILE.");
  }
  const Trace trace = trace_op(options, python);
  if (!options.trace_file.empty()) write_trace(trace, options.trace_file);
  options.output.tree.own_trace = true;
  prepare_index(python.path, trace);
  write_report({&trace, 1}, options.output);
}

/// The options for the op and its call.
OptionRows call_rows(OpOptions& options) {
  return {
      {"OP", "",
       "The op to call, in any of PyTorch's spellings: conv2d,\nnn.Conv2d, F.conv2d, torch.conv2d, "
       "Tensor.add_,\naten::add.Tensor, 'nn.Linear(8, 4)'",
       &options.op},
      {"--device",
       "DEVICE",
       "The device of its tensors: cpu or cuda; without a GPU, cuda\nis a dry run",
       &options.device,
       {.allowed = OneOf{{"cpu", "cuda"}}, .usual = "cpu"}},
      dry_run_rows(options.dry_run),
      {"--shape",
       "[NAME=]SHAPE",
       "Shape of the first tensor, 2x3x4, or of a named one,\nweight=2x3; may be repeated",
       &options.shapes,
       {.several = SeveralValues::each_time_unmarked}},
      {"--dtype",
       "[NAME=]DTYPE",
       "dtype of all floating-point tensors, float16, or of a\nnamed one, weight=float16; may be "
       "repeated",
       &options.dtypes,
       {.several = SeveralValues::each_time_unmarked}},
      {"--input", "EXPR",
       "The call's arguments as Python code, instead of those of a\nsample: 'torch.randn(2, 3), "
       "dim=1'",
       &options.input},
      {"--requires-grad", "", "Make floating-point inputs require a gradient",
       &options.requires_grad},
      {"--backward", "", "Also call .sum().backward() on the result", &options.backward},
      {"--compile", "", "Call what torch.compile makes of the op", &options.compile},
      probes_row(options.probes),
      python_row(options.python, kSearchedPython),
      {"--timeout",
       "SECONDS",
       "How long to wait for a sign of life from Python",
       &options.timeout,
       {.allowed = Between<int>(1, 86400), .usual = std::to_string(options.timeout)}},
  };
}

OptionRows option_rows(OpOptions& options) {
  return {
      call_rows(options),
      output_rows(options.output),
      interactive_row(options.output),
      {"--trace", "FILE", "Save the trace for `optrace report`", &options.trace_file},
      {"--timeline", "", "Keep every call in the trace, not only counts", &options.timeline},
  };
}

}  // namespace

CommandBody op_command() {
  return command_body<OpOptions>(option_rows, run_op);
}

Trace trace_op_command(const std::vector<std::string>& words) {
  OpOptions options;
  run_command_line({.name = "optrace",
                    .summary = "",
                    .examples = "",
                    .body = [&options] { return CommandBody{call_rows(options), [] {}}; }},
                   words);
  require_op(options);
  const PythonChoice python = choose_python(options.python);
  return trace_op(options, python);
}

}  // namespace optrace
