#include "src/commands/tracing/run_command.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <fmt/core.h>
#include <sys/wait.h>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "platform/text/joined.h"
#include "present/readable_numbers.h"
#include "report/details/known_results.h"
#include "src/cache/trace_history.h"
#include "src/command_line/command_line.h"
#include "src/commands/command.h"
#include "src/commands/reports/report_command.h"
#include "src/inputs/program_to_run.h"
#include "src/inputs/python_choice.h"
#include "src/inputs/selected_index.h"
#include "src/options/common_options.h"
#include "src/options/decision_options.h"
#include "src/options/dry_run_options.h"
#include "src/options/selection_options.h"
#include "src/terminal/standard_output.h"
#include "tracer/connection/process_message.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {
namespace {

struct RunOptions {
  OutputOptions output{.usual_format = &report_format("summary")};
  ProgramRequest request;
  DryRunOptions dry_run;
  std::string trace_file;
  std::string probes = "jump";
  DecisionOptions decisions;
  std::string python;
  MemoryOptions memory;
  WindowOptions window;
};

/// Returns `job.rank3.trace` for `job.trace`.
std::filesystem::path with_word(const std::filesystem::path& file, const std::string& word) {
  std::filesystem::path name = file.stem();
  name += "." + word;
  name += file.extension();
  return file.parent_path() / name;
}

/// The files for the traces of the processes. The process that was started gets `file` itself,
/// unless it belongs to a torchrun job.
class TraceFiles {
 public:
  explicit TraceFiles(std::filesystem::path file) : file_(std::move(file)) {}

  std::filesystem::path of(const TracedProcess& process) {
    const std::filesystem::path first = name_of(process);
    std::filesystem::path file = first;
    // A process that replaces itself by exec has a trace for each of its programs.
    for (int number = 2; !given_.insert(file).second; ++number)
      file = with_word(first, std::to_string(number));
    return file;
  }

  /// Returns the file for a process that this command itself started.
  std::filesystem::path for_us(std::optional<std::uint64_t> rank) const {
    return rank ? with_word(file_, fmt::format("rank{}", *rank)) : file_;
  }

 private:
  std::filesystem::path name_of(const TracedProcess& process) {
    if (process.is_main) return for_us(process.rank);
    if (process.rank && ranks_.insert(*process.rank).second) return for_us(process.rank);
    return with_word(for_us(process.rank), std::to_string(process.id));
  }

  std::filesystem::path file_;
  std::set<std::uint64_t> ranks_;
  std::set<std::filesystem::path> given_;
};

/// Returns this command's own rank: torchrun may start it in place of the program.
std::optional<std::uint64_t> own_rank() {
  const char* const text = std::getenv("RANK");
  return text == nullptr ? std::nullopt : rank_number(text);
}

void check(RunOptions& options) {
  require_program(options.request.arguments, "optrace run");
  TraceSelection& selection = options.request.collector.selection;
  options.request.window = take_window(options.window, selection);
  require_selection(selection);
  require_other_file(options.trace_file, options.output);
}

/// Returns true if a process has a trace to show. A child that did nothing with torch has none.
bool has_news(const TracedProcess& process) {
  return process.trace && (process.is_main || process.counted.events != 0);
}

/// Returns true if the process was ended by a signal that is not a request to terminate.
bool crashed(int wait_status) {
  return WIFSIGNALED(wait_status) &&
         !std::set{SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM}.contains(WTERMSIG(wait_status));
}

/// Returns the remedy if the program itself did nothing that could be traced.
std::string children_remedy(const RunOptions& options, const ProgramResult& result) {
  if (options.request.children || !result.had_children) return {};
  return "It started other processes, which were not traced: optrace run --children ... traces "
         "them too.";
}

/// Explains why no process has a trace, although none failed.
Error no_trace_error(const RunOptions& options, const ProgramResult& result) {
  const std::string children = children_remedy(options, result);
  if (result.unreached.empty()) {
    return {ExitStatus::failed, "the program never imported torch, so there is nothing to report",
            children};
  }
  const std::uint64_t first = options.request.window ? options.request.window->first : 1;
  const std::string begin = fmt::format("the program ended before step {}", first);
  const std::optional<std::uint64_t> most =
      std::ranges::max_element(result.unreached, {}, &UnreachedWindow::steps)->steps;
  if (!most) {
    return {ExitStatus::failed, begin + ", so there is nothing to report",
            children.empty() ? "Give --from-step a smaller number." : children};
  }
  if (*most == 0) {
    return {ExitStatus::failed,
            begin + ": no optimizer of torch.optim stepped, and optrace.step() was not called",
            children.empty() ? "Call optrace.step() at the end of each step of the program, or "
                               "trace it without --from-step."
                             : children};
  }
  return {
      ExitStatus::failed,
      fmt::format("{}, so there is nothing to report; it made {}", begin, counted(*most, "step")),
      fmt::format("Give --from-step a number up to {}.", *most)};
}

/// Reports what was requested and did not happen.
void warn_missing_parts(const RunOptions& options, const ProgramResult& result) {
  std::uint64_t ops = 0;
  for (const TracedProcess& process : result.processes) {
    ops += process.counted.ops;
    if (process.problem.empty()) continue;
    write_message(fmt::format("{} was not traced: {}",
                              process.id == 0   ? "a process"
                              : process.is_main ? "the program"
                                                : fmt::format("process {}", process.id),
                              process.problem),
                  process.remedy);
  }
  if (crashed(result.wait_status) && std::ranges::any_of(result.processes, has_news)) {
    write_message(fmt::format("the program was {}; the report covers the time until then",
                              describe_wait_status(result.wait_status)));
  }
  if (result.processes.empty()) {
    const Error nothing = no_trace_error(options, result);
    write_message(nothing.what(), nothing.remedy());
    return;
  }
  if (ops != 0 || warn_of_empty_selection(options.request.collector.selection)) return;
  if (const std::string remedy = children_remedy(options, result); !remedy.empty())
    write_message("the program's own process called no op", remedy);
}

/// Runs several steps, each even if another one failed.
class Steps {
 public:
  template <typename Step>
  void take(const Step& step) {
    try {
      step();
    } catch (const Error& error) {
      write_message(error.what(), error.remedy());
      if (status_ == ExitStatus::done) {
        const bool interrupted = error.status() == ExitStatus::interrupted;
        status_ = interrupted ? ExitStatus::interrupted : ExitStatus::failed;
      }
    }
  }

  /// Returns the status of the first step that failed.
  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_ = ExitStatus::done;
};

/// Returns the exit status of a run without a trace.
int status_without_trace(int end_request) {
  return end_request == 0 ? static_cast<int>(ExitStatus::failed) : kSignalled + end_request;
}

/// Returns the program's own trace, or null if there is none.
Trace* main_trace(ProgramResult& result) {
  for (TracedProcess& process : result.processes)
    if (process.is_main && process.trace) return &*process.trace;
  return nullptr;
}

/// Counts the processes that were to be traced but could not be.
void count_untraced_processes(ProgramResult& result) {
  Trace* const trace = main_trace(result);
  if (trace == nullptr) return;
  for (const TracedProcess& process : result.processes)
    if (!process.problem.empty()) ++trace->meta.shortfalls["processes_untraced"];
}

/// Records in the program's own trace what it lacks, so that it is not taken for complete: the
/// other processes, and the part that a failed program did not reach. `files` are the trace files
/// of the processes, in their order; empty if none are written.
void record_missing_parts(const RunOptions& options, ProgramResult& result,
                          const std::vector<std::filesystem::path>& files) {
  Trace* const trace = main_trace(result);
  if (trace == nullptr) return;
  TraceMeta& meta = trace->meta;
  add_processor_time(meta);
  if (result.children_used_torch) meta.untraced_children = true;
  // With --children, the other processes have traces of their own.
  for (TracedProcess& process : result.processes)
    if (options.request.children && process.trace) {
      process.trace->meta.untraced_children = false;
      process.trace->meta.shortfalls.erase("program_replaced");
    }
  if (const int status = exit_status_of(result); status != 0)
    meta.exit_status = static_cast<std::uint64_t>(status);
  for (std::size_t i = 0; i < files.size(); ++i)
    if (const auto& one = result.processes[i].trace; one && &*one != trace)
      meta.other_traces.push_back(files[i].filename().string());
}

/// Returns the name of the program for people: `train` for train.py.
std::string program_name(const std::vector<std::string>& arguments) {
  if (arguments[0] == "-m") return arguments[1];
  return arguments[0] == "-c" ? "code" : std::filesystem::path(arguments[0]).stem().string();
}

/// Returns the files for the traces of the processes, in their order. Without --trace, they are in
/// the cache; none if that is not possible.
std::vector<std::filesystem::path> trace_files(const RunOptions& options,
                                               const ProgramResult& result) {
  std::vector<std::filesystem::path> written;
  if (result.processes.empty()) return written;
  try {
    TraceFiles files(options.trace_file.empty()
                         ? cached_trace_file(program_name(options.request.arguments))
                         : std::filesystem::path(options.trace_file));
    for (const TracedProcess& process : result.processes) written.push_back(files.of(process));
  } catch (const Error& error) {
    write_message(fmt::format("the trace is not kept: {}", error.what()), error.remedy());
  }
  return written;
}

/// Names the files with the traces that the user did not name.
void announce(const RunOptions& options, const ProgramResult& result,
              const std::vector<std::filesystem::path>& files) {
  if (options.trace_file.empty()) {
    announce_cached_traces(files);
    return;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] != options.trace_file) {
      write_message(fmt::format("the trace of process {} is in {}", result.processes[i].id,
                                files[i].string()));
    }
  }
}

/// Writes the traces and the report. Returns `failed` if one of them could not be written.
ExitStatus report(RunOptions& options, ProgramResult& result) {
  Steps steps;
  count_untraced_processes(result);
  std::erase_if(result.processes, std::not_fn(has_news));
  const std::vector<std::filesystem::path> files = trace_files(options, result);
  record_missing_parts(options, result, files);
  std::vector<Trace> traces;
  traces.reserve(result.processes.size());
  for (TracedProcess& process : result.processes)
    if (process.trace) traces.push_back(std::move(*process.trace));
  if (!files.empty()) {
    steps.take([&] {
      for (std::size_t i = 0; i < files.size(); ++i) write_trace(traces[i], files[i]);
      announce(options, result, files);
      options.output.tree.trace_files = files;
    });
  }
  if (!traces.empty())
    steps.take([&] {
      prepare_index(options.request.python, traces.front());
      write_report(traces, options.output, ReportStream::error);
    });
  return steps.status();
}

/// Runs the program as the options say.
ProgramResult run_traced(RunOptions& options, const PythonChoice& python) {
  options.request.python = python.path;
  options.request.probes = options.probes == "int3" ? ProbeMode::trap : ProbeMode::jump;
  if (options.decisions.asked_for()) options.request.results = known_results(python.path);
  options.request.returns_per_site = options.decisions.returns_per_site();
  options.request.tensors = options.output.tree.tensors;
  options.request.collector.memory = std::make_shared<MemoryBudget>(options.memory.command);
  options.request.target_bytes = options.memory.target;
  if (options.dry_run.asked_for())
    options.request.dry_run = dry_run_of(options.dry_run, python.path);
  ProgramResult result = run_with_progress(options.request);
  for (TracedProcess& process : result.processes)
    if (process.trace) describe_choice(python, *process.trace);
  return result;
}

void run(RunOptions& options) {
  check(options);
  const PythonChoice python = choose_python(options.python);
  const std::optional<std::uint64_t> rank = own_rank();
  if (!options.trace_file.empty())
    const OutputFile trial(TraceFiles(options.trace_file).for_us(rank));
  if (!options.output.file.empty())
    options.output.file = TraceFiles(options.output.file).for_us(rank);
  require_output(options.output, ReportStream::error);
  if (options.output.format().needs_timeline()) options.request.collector.timeline = true;
  ProgramResult result;
  try {
    result = run_traced(options, python);
  } catch (const Error& error) {
    if (error.status() != ExitStatus::interrupted) throw;
    write_message(error.what(), error.remedy());
    throw CommandEnded(status_without_trace(InterruptGuard::signal()));
  }
  warn_missing_parts(options, result);
  const bool recorded = std::ranges::any_of(result.processes, has_news);
  const ExitStatus reported = report(options, result);
  if (!recorded) throw CommandEnded(status_without_trace(result.end_request));
  const int status = exit_status_of(result);
  throw CommandEnded(status != 0 ? status : static_cast<int>(reported));
}

/// The options for the program to trace and its Python.
OptionRows program_rows(RunOptions& options) {
  TraceSelection& selection = options.request.collector.selection;
  return {
      ops_row(selection),
      {"--from-module", "NAME", "Record only calls made by this Python module or package",
       &selection.from_module},
      {"--skip", "N", "Skip the first N calls of ops", &selection.skip, WholeNumber(0)},
      window_rows(options.window),
      memory_rows(options.memory),
      dry_run_rows(options.dry_run),
      {"--children", "", "Also trace the processes that the program starts",
       &options.request.children},
      probes_row(options.probes),
      decisions_row(options.decisions),
      python_row(options.python,
                 "The Python that has torch, to run the program. Default:\n$OPTRACE_PYTHON, else "
                 "the first that has torch of optrace's\nown environment, $VIRTUAL_ENV, "
                 "$CONDA_PREFIX, .venv and python3"),
      program_row(options.request.arguments),
  };
}

OptionRows option_rows(RunOptions& options) {
  return {
      program_rows(options),
      {"--timeline", "", "Keep every call in the trace, not only counts",
       &options.request.collector.timeline},
      {"--trace", "FILE",
       "Save the trace for `optrace report`; that of a child goes to\nNAME.PID.EXT, that of a "
       "torchrun rank to NAME.rankN.EXT.\nDefault: the cache, which keeps those of the last 20 "
       "programs",
       &options.trace_file},
      output_rows(options.output),
  };
}

}  // namespace

CommandBody run_command() {
  return command_body<RunOptions>(option_rows, run);
}

std::vector<Trace> trace_run_command(const std::vector<std::string>& words) {
  RunOptions options;
  const auto body = [&options] { return CommandBody{program_rows(options), [] {}}; };
  run_command_line({.name = "optrace",
                    .summary = "",
                    .examples = "",
                    .commands = {{.name = "run", .summary = "", .examples = "", .body = body}}},
                   words);
  check(options);
  ProgramResult result = run_traced(options, choose_python(options.python));
  if (result.processes.empty() && exit_status_of(result) == 0) {
    const Error nothing = no_trace_error(options, result);
    throw Error(ExitStatus::failed, fmt::format("`{}`: {}", joined(words, " "), nothing.what()),
                nothing.remedy().empty() ? "Give a program that calls torch." : nothing.remedy());
  }
  const auto failed =
      std::ranges::find_if_not(result.processes, &std::string::empty, &TracedProcess::problem);
  if (failed != result.processes.end() && std::ranges::none_of(result.processes, has_news)) {
    throw Error(result.end_request == 0 ? ExitStatus::failed : ExitStatus::interrupted,
                fmt::format("`{}` was not traced: {}", joined(words, " "), failed->problem),
                failed->remedy);
  }
  warn_missing_parts(options, result);
  if (const int status = exit_status_of(result); status != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("`{}` ended with exit status {}", joined(words, " "), status),
                "See its own messages for the reason. The trace would be incomplete.");
  }
  count_untraced_processes(result);
  record_missing_parts(options, result, {});
  std::vector<Trace> traces;
  for (TracedProcess& process : result.processes)
    if (process.trace && has_news(process)) traces.push_back(std::move(*process.trace));
  if (traces.empty()) {
    throw Error(ExitStatus::failed,
                fmt::format("`{}` did nothing that could be traced", joined(words, " ")),
                "Give a program that calls torch.");
  }
  return traces;
}

}  // namespace optrace
