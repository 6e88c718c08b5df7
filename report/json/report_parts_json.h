#pragma once

// Parts of a report that other schemas have, too. Only files that write JSON include this header.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "report/model/report_reader.h"
#include "tracer/trace/recorded_run_json.h"

namespace optrace {

/// Returns null without a device.
nlohmann::json to_json(const std::optional<EmulatedDevice>& device);
nlohmann::json to_json(const std::optional<RecordedSteps>& steps);
nlohmann::json to_json(const std::vector<ReportProcess>& processes);
nlohmann::json to_json(const std::vector<Compilation>& compilations);
/// Returns a list of {"kind", "count", "what"}.
nlohmann::json to_json(const std::vector<Shortfall>& shortfalls);
/// Returns an object, or null.
nlohmann::json to_json(const std::optional<CallRange>& range);

}  // namespace optrace
