#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "tracer/probes/probe_session.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Converts a raw recording that was made with the session's probes. `meta` as in Trace; adds the
/// session's warnings() to meta["warnings"], and the counts of placed and failed probes to
/// meta["probes"]. Throws Error(failed) if the recording is corrupt, or refers to a plan that is
/// not the session's.
Trace read_recorded_trace(ProbeSession& session, const std::filesystem::path& raw_recording,
                          nlohmann::json meta);

}  // namespace optrace
