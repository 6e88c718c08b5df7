#pragma once

#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "tracer/trace/trace.h"

namespace optrace {

/// Returns `detail.variables` of a Python frame (docs/report-format.md): the local variables whose
/// text was recorded when its calls ended. Null if there are none. The records are untrusted;
/// anything else than such a record is skipped.
nlohmann::json recorded_variables(const Trace& trace, std::span<const OpTally> tallies);

/// Returns a frame's variables in one line, `why_not_fast_path: 'training is enabled'`, each value
/// with its number of calls if there are several. Empty if its detail has none.
std::string variables_note(const nlohmann::json& detail);

}  // namespace optrace
