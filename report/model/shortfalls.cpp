#include "report/model/shortfalls.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace optrace {
namespace {

constexpr std::string_view kLess =
    "Trace fewer ops (--ops, --count), or on a machine with less load.";
constexpr std::string_view kMoreMemory =
    "Trace a part of the program (--ops, --from-module, --count), or with a larger --memory.";

// To add a kind, add a row here and count it in TraceMeta::shortfalls where it is detected.
constexpr auto kKinds = std::to_array<ShortfallKind>({
    {"events_lost", ShortfallEffect::frames, "{} events were lost while recording", kLess,
     "{} events did not fit into the buffer; frames are missing from the tree."},
    {"texts_lost", ShortfallEffect::frames, "{} names or op records did not fit into the buffer",
     kLess, ""},
    {"probes_failed", ShortfallEffect::frames, "{} functions could not be probed",
     "The report's warnings give the reason. Trace with --probes int3, or with more free memory.",
     ""},
    {"processes_untraced", ShortfallEffect::calls, "{} processes of the program were not traced",
     "The messages of `optrace run` give the reason.", ""},
    {"untraced_children", ShortfallEffect::calls,
     "the program started other processes, which were not traced",
     "Trace them too: optrace run --children.", ""},
    {"program_replaced", ShortfallEffect::calls,
     "the program replaced itself by another one (exec), which was not traced",
     "Trace that one too: optrace run --children.",
     "The program replaced itself by another one (exec), which was not traced."},
    {"finalized_later", ShortfallEffect::calls,
     "{} objects lived until the program's end, and what their __del__ does was not recorded",
     "Delete them (del NAME) before the program ends.", ""},
    {"exit_status", ShortfallEffect::calls, "the program failed, so the trace lacks the rest of it",
     "Its own messages give the reason. Trace it again when it works.", ""},
    {"python_frames_off", ShortfallEffect::python,
     "Python functions were not recorded, or only part of the time",
     "Trace with Python frames, and without another profiler in the program.", ""},
    {"python_functions_merged", ShortfallEffect::python,
     "{} calls are of Python functions whose names did not fit into the traced process's memory",
     "Trace with a larger --target-memory.",
     "{} calls are of Python functions whose names did not fit into the traced process's memory "
     "(--target-memory). They are called '...'."},
    {"op_records_missing", ShortfallEffect::records, "ops were not recorded",
     "Trace on a machine with a C++ compiler, with op records on.", ""},
    {"device_work_missing", ShortfallEffect::device,
     "kernels, copies or fills of the device are missing", "The report's warnings give the reason.",
     ""},
    {"program_waited", ShortfallEffect::details,
     "the program's threads waited {} ms for optrace, which is part of their times", kLess,
     "The program's threads waited {} ms for optrace to read what they recorded; their times "
     "contain it."},
    {"triton_kernels", ShortfallEffect::details,
     "{} Triton kernels have no constants and no definition",
     "This version of optrace does not know how the installed PyTorch and Triton keep them.", ""},
    {"paths_merged", ShortfallEffect::places,
     "{} calls are in '...' frames, because their paths exceeded the memory limit", kMoreMemory,
     "{} calls are in '...' frames: their paths exceeded the limit (--memory) or were too deep. "
     "They are counted, but without their place in the tree."},
    {"calls_unnamed", ShortfallEffect::frames,
     "{} calls are in '...' frames, and their functions are unknown", kMoreMemory,
     "{} calls are in '...' frames without their functions, which exceeded the limit too "
     "(--memory)."},
    {"callers_inferred", ShortfallEffect::callers, "the callers of {} calls had to be inferred",
     "Check the called function (`calls NAME`) instead, which does not depend on callers.",
     "for {} calls the caller had to be inferred; those frames may be in the wrong place."},
    {"timeline_ends", ShortfallEffect::timeline, "the last {} events are not in the timeline",
     kMoreMemory,
     "The last {} events are not in the timeline, which reached its limit (--memory); they are "
     "counted."},
});

constexpr ShortfallKind kUnknown = {
    "", ShortfallEffect::frames,
    "the trace is incomplete in a way that this version of optrace does not know",
    "Use the version of optrace that recorded it.",
    "The trace is incomplete in a way that this version of optrace does not know."};

std::string with_count(std::string_view text, std::uint64_t count) {
  return fmt::format(fmt::runtime(text), count);
}

// Counts the calls of Python functions for which the agent had no room (kMergedFunction in
// python_events.cpp).
std::uint64_t calls_without_name(const Trace& trace) {
  const auto merged = std::ranges::find(trace.python_functions, "...", &PythonFunction::name);
  if (merged == trace.python_functions.end()) return 0;
  const auto function = static_cast<std::uint32_t>(merged - trace.python_functions.begin());
  std::uint64_t calls = 0;
  for (const TracePath& path : trace.paths)
    if (path.kind == PathKind::python ? path.what == function : path.builtin == function)
      calls += path.calls;
  return calls;
}

// Derives the count of a kind from the trace's statistics and metadata.
std::uint64_t found_in(const Trace& trace, std::string_view kind) {
  if (kind == "events_lost") {
    std::uint64_t lost = 0;
    for (const ThreadRecord& thread : trace.threads) lost += thread.lost;
    return lost;
  }
  if (kind == "op_records_missing")
    return trace.op_records.empty() || trace.op_records[0].empty() ? 1 : 0;
  if (kind == "python_functions_merged") return calls_without_name(trace);
  if (kind == "callers_inferred") return trace.statistics.unprobed_callers;
  if (kind == "probes_failed") return trace.meta.probes.failed.value_or(0);
  if (kind == "untraced_children") return trace.meta.untraced_children ? 1 : 0;
  if (kind == "exit_status") return trace.meta.exit_status ? 1 : 0;
  return 0;
}

}  // namespace

const ShortfallKind& kind_of(const Shortfall& shortfall) {
  const auto found = std::ranges::find(kKinds, shortfall.kind, &ShortfallKind::kind);
  return found == kKinds.end() ? kUnknown : *found;
}

std::string sentence_of(const Shortfall& shortfall) {
  return with_count(kind_of(shortfall).sentence, shortfall.count);
}

std::vector<Shortfall> shortfalls_of(const Trace& trace) {
  std::vector<Shortfall> shortfalls;
  for (const ShortfallKind& kind : kKinds)
    if (const std::uint64_t count = found_in(trace, kind.kind); count != 0)
      shortfalls.push_back({std::string(kind.kind), count});
  for (const auto& [kind, count] : trace.meta.shortfalls)
    if (count != 0) add_shortfall(shortfalls, {kind, count});
  std::ranges::stable_sort(shortfalls, {}, [](const Shortfall& one) {
    return std::ranges::find(kKinds, one.kind, &ShortfallKind::kind) - kKinds.begin();
  });
  return shortfalls;
}

void add_shortfall(std::vector<Shortfall>& shortfalls, const Shortfall& more) {
  const auto known = std::ranges::find(shortfalls, more.kind, &Shortfall::kind);
  if (known == shortfalls.end())
    shortfalls.push_back(more);
  else
    known->count += more.count;
}

std::vector<std::string> shortfall_warnings(const std::vector<Shortfall>& shortfalls) {
  std::vector<std::string> warnings;
  for (const Shortfall& shortfall : shortfalls)
    if (const std::string_view warning = kind_of(shortfall).warning; !warning.empty())
      warnings.push_back(with_count(warning, shortfall.count));
  return warnings;
}

bool may_hide_differences(const std::vector<Shortfall>& shortfalls) {
  return std::ranges::any_of(shortfalls, [](const Shortfall& shortfall) {
    const ShortfallEffect effect = kind_of(shortfall).effect;
    return effect != ShortfallEffect::callers && effect != ShortfallEffect::timeline &&
           effect != ShortfallEffect::details;
  });
}

}  // namespace optrace
