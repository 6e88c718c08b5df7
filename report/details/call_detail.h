#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "report/model/detail.h"
#include "tracer/trace/op_record.h"

namespace optrace {

/// Sums up a trace's records of library calls and device activity (docs/trace-format.md). Anything
/// that is not such a record is skipped.
class CallDetails {
 public:
  /// A device kernel that a call launched.
  struct Kernel {
    std::string symbol;       ///< Mangled name.
    std::uint64_t calls = 0;  ///< Number of launches.
    std::vector<Launch> launches;
    std::optional<Duration> duration;  ///< Of all launches, for recorded device activity.
    std::size_t first = 0;             ///< Index of the first count with this kernel.
  };

  /// A failed function that has no entry of its own in the trace.
  struct Failed {
    std::string function;
    std::uint64_t calls = 0;  ///< Number of failed calls.
    std::vector<LibraryCall> records;
  };

  struct Calls {
    std::vector<LibraryCall> calls;
    std::vector<Kernel> kernels;  ///< In the order of first launch.
    std::vector<Failed> failed;   ///< In the order of first failure.
    bool reads_device = false;    ///< The host read values from device memory.

   private:
    friend CallDetails;
    std::unordered_map<std::string, std::size_t> kernel_places, failed_places;  // Indexes, by name.
  };

  /// The trace and its records must outlive the object.
  CallDetails(const Trace& trace, const OpRecords& records);

  /// Returns true if one of these calls failed.
  bool any_failed(std::span<const OpCallCount> counts) const;

  /// Sums up the records of calls of the function `function`.
  Calls of(std::string_view function, std::span<const OpCallCount> counts) const;

  /// Sums up device activity: kernels become launches, copies and fills become calls.
  Calls of(std::span<const ActivityCount> counts) const;

 private:
  static void add(const LibraryCall& call, std::uint64_t calls,
                  const std::optional<Duration>& duration, Calls& result);
  static void add(const KernelLaunch& launched, std::uint64_t calls,
                  const std::optional<Duration>& duration, std::size_t counted, Calls& result);
  static void add_failed(const LibraryCall& call, std::uint64_t calls, Calls& result);

  const OpRecords& records_;
  std::unordered_set<std::uint32_t> failures_;  // Records of kind "failed".
};

/// The failed or refused library calls of a frame.
struct CallFailure {
  std::string error;        ///< Such as "cudaErrorMemoryAllocation (2)".
  std::string why;          ///< Empty if unknown.
  bool refused = false;     ///< Rejected by the library's rules; false if it failed.
  std::uint64_t calls = 0;  ///< Number of calls.
};
/// Returns the failed or refused calls in a frame's detail, or nothing if no call failed.
std::optional<CallFailure> call_failure(const Detail& detail);

/// Describes one kind of calls in one line: "m 64, n 128, k 32".
std::string call_line(const LibraryCall& call);
std::string call_line(const Launch& launch);
/// Same, for the values of a call or launch by their names (named_values()).
std::string call_line(const std::vector<NamedValue>& values);

/// One short line for a tree: "m 64, n 128, k 32", or a Python function's recorded variables. Empty
/// if the detail has neither.
std::string call_note(const Detail& detail);

}  // namespace optrace
