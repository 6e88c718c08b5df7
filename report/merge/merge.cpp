#include "report/merge/merge.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "indexer/store/source_link.h"
#include "platform/error.h"
#include "pytorch/functions/layers.h"
#include "report/compiled/compilations.h"
#include "report/compiled/compiler_frames.h"
#include "report/compiled/triton_kernels.h"
#include "report/compiled/triton_launches.h"
#include "report/details/attention_backends.h"
#include "report/details/call_detail.h"
#include "report/details/dispatch_detail.h"
#include "report/job/merged_processes.h"
#include "report/merge/frame_builder.h"
#include "report/merge/frame_processes.h"
#include "report/merge/path_selection.h"
#include "report/merge/report_path.h"
#include "report/merge/timeline.h"
#include "report/merge/traced_functions.h"
#include "report/merge/workspace_queries.h"
#include "report/model/shortfalls.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

Recording recording_of(const TraceMeta& meta) {
  Recording recording;
  static_cast<RecordedCall&>(recording) = meta;
  if (meta.recording) {
    recording.duration = meta.recording->duration_ns;
    recording.events = meta.recording->events;
    recording.command_cpu = meta.recording->command_cpu_ns;
  }
  recording.has_selection = !meta.selection.everything();
  recording.exit_status = meta.exit_status.value_or(0);
  return recording;
}

// Returns the exact calls of Python functions whose frames have another number.
std::optional<CallsByName> python_calls_of(const Trace& trace, const std::vector<Frame>& roots) {
  if (!trace.meta.python_calls_beyond_paths) return std::nullopt;
  std::map<std::string, std::int64_t, std::less<>> calls(
      trace.meta.python_calls_beyond_paths->begin(), trace.meta.python_calls_beyond_paths->end());
  for (const TracePath& path : trace.paths)
    if (path.kind == PathKind::python && path.what != kNone)
      calls[trace.python_functions[path.what].name] += static_cast<std::int64_t>(path.calls);
  std::map<std::string_view, std::int64_t> in_frames;
  walk_frames(roots, 0, [&](const Frame& frame, int) {
    if (frame.layer == Layer::python || frame.layer == Layer::compiler)
      in_frames[frame.name] += static_cast<std::int64_t>(frame.calls);
    return 0;
  });
  CallsByName exact;
  for (const auto& [name, number] : calls)
    if (!name.ends_with("<module>") && number >= 0 && number != in_frames[name] &&
        classify_python(name).visibility != Visibility::hidden)
      exact[name] = static_cast<std::uint64_t>(number);
  return exact;
}

// Returns the report without its frames.
Report describe_recording(const Trace& trace) {
  Report report;
  report.recording = recording_of(trace.meta);
  report.torch = trace.meta.torch;
  report.device = trace.meta.device == "cuda" ? "cuda" : "cpu";
  if (trace.meta.dry_run && !trace.meta.dry_run->device.arch.empty())
    report.dry_run = trace.meta.dry_run->device;
  if (trace.meta.steps && trace.meta.steps->first != 0) report.steps = trace.meta.steps;
  for (const ThreadRecord& thread : trace.threads)
    if (thread.id != 0) ++report.threads;
  report.statistics = trace.statistics;
  report.shortfalls = shortfalls_of(trace);
  return report;
}

// Returns Frame::number for each path of the trace; 0 for a path without a frame.
std::vector<std::uint32_t> numbers_of(const ReportPathSet& paths, std::size_t traced_paths) {
  std::vector<std::uint32_t> numbers(traced_paths);
  for (std::size_t i = 0; i < paths.paths().size(); ++i) {
    const ReportPath& path = paths.paths()[i];
    if (path.kind == PathKind::inlined) continue;
    numbers[path.traced] = frame_number(i);
    for (const std::uint32_t traced : path.also) numbers[traced] = frame_number(i);
  }
  return numbers;
}

// Returns where the functions of the frames begin.
FunctionEntries entries_of(const ReportPathSet& paths, const Trace& trace) {
  FunctionEntries made;
  for (const TraceModule& module : trace.modules)
    made.modules.push_back({module.path, module.build_id});
  for (std::size_t i = 0; i < paths.paths().size(); ++i) {
    const ReportPath& path = paths.paths()[i];
    const std::uint32_t function = path.kind == PathKind::function ? path.what : path.boxed;
    if (function == kNone || trace.functions[function].module == kNone) continue;
    made.entries[frame_number(i)] = {trace.functions[function].module,
                                     trace.functions[function].address};
  }
  return made;
}

// Returns the trace without events, with the paths of its timeline.
Trace with_paths_of(const CountedTimeline& counted, const Trace& trace) {
  Trace made;
  made.meta = trace.meta;
  made.modules = trace.modules;
  made.functions = trace.functions;
  made.python_functions = trace.python_functions;
  made.op_records = trace.op_records;
  made.paths = counted.paths;
  made.statistics = counted.statistics;
  for (const ThreadRecord& thread : trace.threads) {
    made.threads.emplace_back().id = thread.id;
    made.threads.back().lost = thread.lost;
  }
  return made;
}

// Makes the report of a trace's paths. `numbers` gets Frame::number for each of them.
Report merge_paths(const Trace& trace, const Index* index, const MergeOptions& options,
                   std::vector<std::uint32_t>& numbers) {
  Report report = describe_recording(trace);
  const std::string& version = report.torch.version;
  const std::string& git_version = report.torch.git_version;
  SourceLink native_links;
  if (index != nullptr) {
    report.source_version = index->torch_version();
    const IndexMatch match = match_of(*index, is_exact_source(*index, version, git_version));
    report.source_of_torch = match.of_torch;
    report.source_from_wheel = match.from_wheel;
    report.source_exact = match.exact;
    native_links = SourceLink(index->git_version().empty() && match.of_torch
                                  ? git_version
                                  : std::string(index->git_version()),
                              report.source_version);
  }
  TracedFunctions functions(trace, index, std::move(native_links), report.source_of_torch);
  const OpRecords records(trace);
  const CallDetails calls(trace, records);
  // A merged trace of a single process is like any other.
  std::optional<FrameProcesses> processes;
  if (std::optional<MergedProcesses> merged = read_merged_processes(trace)) {
    report.threads = 0;
    for (const MergedProcess& process : merged->processes) report.threads += process.threads;
    if (merged->processes.size() > 1) processes.emplace(trace, std::move(*merged));
  }
  const ReportPathSet paths = select_paths(trace, functions, calls, options.all);
  report.roots = build_frames({.trace = trace,
                               .index = index,
                               .functions = functions,
                               .records = records,
                               .calls = calls,
                               .python_links = SourceLink(git_version, version),
                               .times = options.times,
                               .processes = processes ? &*processes : nullptr},
                              paths);
  report.python_calls = python_calls_of(trace, report.roots);
  add_workspace_queries(report, trace);
  report.compilations = describe_compilations(trace.meta, functions.generated_code());
  add_compilations(report, functions.generated_code());
  add_triton_kernels(report, TritonKernels(trace.meta));
  add_attention_backends(report, trace.meta,
                         report.source_exact && !report.source_from_wheel ? index : nullptr);
  if (processes) {
    report.processes = processes->processes();
    report.recording.differences = processes->differences();
  }
  if (options.timeline) numbers = numbers_of(paths, trace.paths.size());
  if (options.entries) report.entries = entries_of(paths, trace);
  return report;
}

}  // namespace

Report merge(const Trace& trace, const Index* index, const MergeOptions& options) {
  std::vector<std::uint32_t> numbers;
  if (!options.timeline) return merge_paths(trace, index, options, numbers);
  if (!has_timeline(trace)) {
    throw Error(
        ExitStatus::usage,
        "the trace has no timeline: it has counts of calls, and not each call with its time",
        "Record it again with --timeline, or write this format while recording: `optrace run "
        "--format perfetto -o FILE`.");
  }
  const CountedTimeline counted = count_timeline(trace, trace.meta.selection);
  Report report = merge_paths(with_paths_of(counted, trace), index, options, numbers);
  report.timeline = timeline_of(trace, counted, numbers);
  return report;
}

}  // namespace optrace
