#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tracer/trace.h"

namespace optrace {

/// What libraries were asked for, from a trace's records (docs/trace-format.md). Everything that it
/// reads is hostile; what is no such record is left out.
class CallDetails {
 public:
  /// A device kernel that a call launched.
  struct Launch {
    std::string symbol;       ///< Mangled.
    std::uint64_t calls = 0;  ///< How often.
    nlohmann::json detail;    ///< {"launches": [{"grid", "block", ..., "calls"}, ...]}
  };

  struct Calls {
    nlohmann::json calls = nlohmann::json::array();  ///< [{"kind", ..., "calls"}, ...]
    std::vector<Launch> launches;                    ///< By first launch.
    bool reads_device = false;                       ///< The host got values from device memory.
  };

  /// The trace must outlive the object.
  explicit CallDetails(const Trace& trace) : trace_(trace) {}

  /// Of a function of this name that was called with these records.
  Calls of(std::string_view function, std::span<const OpTally> tallies) const;

 private:
  const Trace& trace_;
};

/// One short line for a tree: "m 64, n 128, k 32". Empty if the detail has no calls.
std::string call_note(const nlohmann::json& detail);

}  // namespace optrace
