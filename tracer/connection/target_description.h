#pragma once

#include <filesystem>
#include <vector>

#include "gpu/build/dry_run.h"
#include "tracer/probes/process_map.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns the libraries in `torch_folder`/lib that are worth probing, and those for CUDA if `cuda`
/// is set and the wheel has them. `store` is the store that will open them. Throws Error(usage) if
/// the folder is not that of a release wheel, or the wheel is for another platform.
std::vector<std::filesystem::path> torch_libraries(const std::filesystem::path& torch_folder,
                                                   bool cuda,
                                                   const ModuleStore& store = ModuleStore());

/// Adds to a new trace what the command knows of it: the facts of a dry run, if it was one, and
/// warnings for device work that is missing. Then does the same as keep_names_that_occur().
void complete_trace(Trace& trace, const DryRun* dry_run);

/// Reduces the names of ops, of which a target sends all, to those that occur in the names of the
/// trace's functions.
void keep_names_that_occur(Trace& trace);

}  // namespace optrace
