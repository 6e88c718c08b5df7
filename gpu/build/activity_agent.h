#pragma once

#include <filesystem>
#include <vector>

#include "target/build/built_for_torch.h"

namespace optrace {

/// Returns true if the work of devices is recorded: if there are devices and this is no dry run.
/// $OPTRACE_DEVICE_ACTIVITY (1 or 0) overrides this.
bool records_device_activity(bool dry_run);

/// Returns the library that records the work of CUDA devices in a traced process
/// (gpu/activity/) for the torch in `torch_folder` (site-packages/torch). If
/// no prebuilt one fits, it is built against the headers of the nvidia wheels beside that torch.
/// Throws like find_or_build().
BuiltLibraries find_or_build_activity_agent(const std::filesystem::path& torch_folder,
                                            const BuildProgress& progress);

/// Describes it, for the first of some torches with the same major version of CUDA. What is built
/// serves all of them.
BuildDescription activity_agent_description(const std::vector<std::filesystem::path>& torches);

}  // namespace optrace
