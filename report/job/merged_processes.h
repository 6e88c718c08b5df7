#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/job/call_patterns.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A process whose trace was merged with others.
struct MergedProcess {
  std::optional<std::uint64_t> rank, id;
  std::uint64_t digest = 0;   ///< Of the contents of its trace.
  std::uint64_t threads = 0;  ///< Number of threads that recorded something.
};

/// Compares by rank, then by id, then by digest. Numbers come before unknown ones.
bool comes_before(const MergedProcess& left, const MergedProcess& right);

/// The processes of a merged trace, and which of them took which paths how often: metadata of the
/// trace, key `merged` (docs/trace-format.md).
struct MergedProcesses {
  std::vector<MergedProcess> processes;  ///< Ordered by comes_before().
  CallPatterns patterns;
  std::vector<std::uint32_t> pattern_of;  ///< The pattern of each path of the trace.
};

/// Returns the rank and id of a trace's process, with the digest of its contents. The trace must
/// not be a merged one.
MergedProcess process_of(const Trace& trace);

/// Returns nullopt if the trace is not a merged one. Throws Error(usage) if the metadata is
/// corrupt.
std::optional<MergedProcesses> read_merged_processes(const Trace& trace);

/// Returns the metadata that read_merged_processes() reads.
std::string merged_processes_json(MergedProcesses& merged, const std::vector<TracePath>& paths);

}  // namespace optrace
