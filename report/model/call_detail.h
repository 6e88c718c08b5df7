#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <nlohmann/json.hpp>

#include "tracer/trace/trace.h"

namespace optrace {

/// What libraries were asked for, and what devices did, from a trace's records
/// (docs/trace-format.md). Everything that it reads is hostile; what is no such record is left out.
class CallDetails {
 public:
  /// A device kernel that a call launched.
  struct Launch {
    std::string symbol;       ///< Mangled.
    std::uint64_t calls = 0;  ///< How often.
    /// {"launches": [{"grid", "block", ..., "calls"}, ...]}; of what a device did, each and all
    /// together with "duration_ns": {"total", "shortest", "longest"}.
    nlohmann::json detail;
    std::size_t first = 0;  ///< Which of the tallies told of it first.
  };

  /// A function that failed and has no entry of its own in the trace.
  struct Failed {
    std::string function;
    std::uint64_t calls = 0;  ///< How often it failed.
    nlohmann::json detail;    ///< {"calls": [...]}
  };

  struct Calls {
    nlohmann::json calls = nlohmann::json::array();  ///< [{"kind", ..., "calls"}, ...]
    std::vector<Launch> launches;                    ///< By first launch.
    std::vector<Failed> failed;                      ///< Likewise.
    bool reads_device = false;                       ///< The host got values from device memory.

   private:
    friend CallDetails;
    std::unordered_map<std::string, std::size_t> launch_places, failed_places;  // By name.
  };

  /// The trace must outlive the object.
  explicit CallDetails(const Trace& trace);

  /// Whether one of these calls failed.
  bool any_failed(std::span<const OpTally> tallies) const;

  /// Of a function of this name that was called with these records.
  Calls of(std::string_view function, std::span<const OpTally> tallies) const;

  /// Of what a device did for calls: kernels are launches, copies and fills calls.
  Calls of(std::span<const ActivityTally> tallies) const;

 private:
  /// Null if there is no such record.
  nlohmann::json record_at(std::uint32_t number) const;
  static void add(nlohmann::json record, std::size_t tally, Calls& result);
  static void add_failed(const std::string& function, nlohmann::json record, Calls& result);

  const Trace& trace_;
  std::unordered_set<std::uint32_t> failures_;  // Records of kind "failed".
};

/// Of a frame's detail: what a library answered that could not or would not do what it was asked
/// for, as "cudaErrorMemoryAllocation (2): why"; empty where nothing failed.
struct CallFailure {
  std::string error;
  std::string why;          ///< Empty if unknown.
  bool refused = false;     ///< By the library's rules, not by what happened.
  std::uint64_t calls = 0;  ///< How often.
};
std::optional<CallFailure> call_failure(const nlohmann::json& detail);

/// What one record asked for, in one line: "m 64, n 128, k 32".
std::string call_line(const nlohmann::json& record);

/// One short line for a tree: "m 64, n 128, k 32". Empty if the detail has no calls.
std::string call_note(const nlohmann::json& detail);

}  // namespace optrace
