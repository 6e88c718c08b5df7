#pragma once

#include <filesystem>
#include <vector>

#include "gpu/libraries/device_families.h"
#include "target/build/built_for_torch.h"

namespace optrace {

/// Returns the library that records torch's calls of real CUDA libraries
/// (gpu/recorder/) for the torch in `torch_folder` (site-packages/torch). If no
/// prebuilt one fits, it is built against the headers of the nvidia wheels beside that torch.
/// Throws like find_or_build().
BuiltLibraries find_or_build_cuda_calls_agent(const std::filesystem::path& torch_folder,
                                              const BuildProgress& progress);

/// Describes it, for the first of some torches with the same major version of CUDA. What is built
/// serves all of them.
BuildDescription cuda_calls_agent_description(const std::vector<std::filesystem::path>& torches);

/// Returns true if the calls of the family's functions are recorded.
bool records_calls_of(const DeviceFamily& family);

}  // namespace optrace
