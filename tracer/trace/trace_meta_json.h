#pragma once

#include <nlohmann/json.hpp>

#include "platform/exported.h"
#include "tracer/trace/trace_meta.h"

namespace optrace {

/// Reads the metadata of a trace, which is untrusted: what is invalid is skipped. `json` may be any
/// JSON.
TraceMeta trace_meta_of(const nlohmann::json& json);
nlohmann::json to_json(const TraceMeta& meta);

/// Reads what a process says when it ends: the dispatch tables, and what was compiled.
OPTRACE_EXPORTED void read_tables(const nlohmann::json& json, TraceMeta& meta);

}  // namespace optrace
