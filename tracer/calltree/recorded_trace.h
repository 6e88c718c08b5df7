#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "tracer/probes/probe_session.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The trace of a raw recording that was made with the session's probes. `meta` as in Trace; the
/// session's warnings() are added to meta["warnings"], the count of placed and failed probes to
/// meta["probes"]. Throws Error(failed) if the recording is corrupt, or names a plan that is not
/// the session's.
Trace read_recorded_trace(ProbeSession& session, const std::filesystem::path& raw_recording,
                          nlohmann::json meta);

}  // namespace optrace
