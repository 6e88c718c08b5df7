#pragma once

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "tracer/probes/process_map.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The libraries in `torch_folder`/lib that are worth probing; those for CUDA where `cuda` says so
/// and the wheel has them. `store` is who will open them. Throws Error(usage) when it is no release
/// wheel's folder.
std::vector<std::filesystem::path> torch_libraries(const std::filesystem::path& torch_folder,
                                                   bool cuda,
                                                   const ModuleStore& store = ModuleStore());

/// meta["op_names"] as a target sends it has all of its ops; a trace keeps those that its functions
/// mention.
void keep_names_that_occur(Trace& trace);

/// What a target says of itself, once it is seen to have the types that the report relies on.
/// Throws Error(failed).
nlohmann::json checked_meta(nlohmann::json meta);

}  // namespace optrace
