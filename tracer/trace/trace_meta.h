#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pytorch/values/values.h"
#include "tracer/trace/recorded_run.h"
#include "tracer/trace/trace_selection.h"

namespace optrace {

/// An input of the requested op.
struct CallInput {
  std::string name;
  std::optional<Sizes> shape;  ///< Nothing if it is no tensor.
  std::string dtype;           ///< As PyTorch prints it: `torch.float32`.
  std::string device{};
  bool operator==(const CallInput&) const = default;
};

/// What was run, and by which Python. What is unknown is empty.
struct RecordedCall {
  std::string op;    ///< The requested op, as it was given; empty for a program.
  std::string call;  ///< The Python expression or the program that was run.
  std::vector<CallInput> inputs;
  /// The options of the request, but for --backward. One that is no text is an empty word.
  std::vector<std::string> options;
  bool backward = false;  ///< The backward pass is part of the recording.
  std::string python;     ///< Version of the interpreter.
  /// The interpreter's path and where it was found, if that needs to be said.
  std::string interpreter, interpreter_from;
  std::string torch_folder;  ///< The folder from which torch was imported.
  ReportProcess process;
  std::vector<std::string> warnings;  ///< Sentences for the user.
  bool operator==(const RecordedCall&) const = default;
};

/// The description of a trace (docs/trace-format.md). What is unknown is empty or 0.
struct TraceMeta : RecordedCall {
  TorchBuild torch;
  std::string device;       ///< `cpu` or `cuda`.
  std::string sample_from;  ///< Where the arguments come from.
  struct Comparison {
    bool repeatable = false;  ///< Untraced runs had equal results.
    bool equal = false;       ///< Traced ones had, too.
    bool operator==(const Comparison&) const = default;
  };
  std::optional<Comparison> comparison;

  struct DryRun {
    EmulatedDevice device;
    std::vector<std::string> libraries;  ///< Names of the files in the place of CUDA's.
    bool operator==(const DryRun&) const = default;
  };
  std::optional<DryRun> dry_run;

  std::optional<RecordedSteps> steps;
  TraceSelection selection;
  std::uint64_t start_unix_ns = 0;  ///< The Unix time from which the times of events count.
  struct Recording {
    std::uint64_t duration_ns = 0, events = 0;
    std::uint64_t command_cpu_ns = 0;  ///< Processor time of optrace's own process.
    bool operator==(const Recording&) const = default;
  };
  std::optional<Recording> recording;  ///< Of a program.
  struct Probes {
    std::string mode;  ///< The value of --probes.
    std::optional<std::uint64_t> placed, failed;
    bool operator==(const Probes&) const = default;
  };
  Probes probes;

  std::optional<std::uint64_t> exit_status;  ///< Of a program that failed.
  bool untraced_children = false;
  std::vector<std::string> other_traces;
  /// Counts of what the trace lacks, by the kinds in report/model/shortfalls.cpp.
  std::map<std::string, std::uint64_t> shortfalls;

  /// By Python function: its calls less those of its paths. Paths lack calls that led to nothing,
  /// and have each resumption of a generator. Nothing if calls were not counted.
  std::optional<std::map<std::string, std::int64_t>> python_calls_beyond_paths;
  std::map<std::string, std::string> op_names;  ///< From those in at::_ops to the dispatcher's.
  std::optional<std::map<std::string, std::string>> dispatch_tables;  ///< By op.
  std::optional<std::map<std::string, std::vector<std::string>>> boxed_kernels;

  // JSON texts, empty without that member. They are read where reports are made of them.
  std::string compilations, generated_code, triton_kernels, attention, merged;

  bool operator==(const TraceMeta&) const = default;
};

/// Adds the processor time that this process has used.
void add_processor_time(TraceMeta& meta);

}  // namespace optrace
