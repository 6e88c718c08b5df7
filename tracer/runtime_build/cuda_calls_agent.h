#pragma once

#include <filesystem>

#include "tracer/runtime_build/built_for_torch.h"

namespace optrace {

/// Returns the library that records torch's calls of real CUDA libraries
/// (tracer/in_process/cuda_calls/), built for the torch in `torch_folder` (site-packages/torch)
/// against the headers of the nvidia wheels beside it. Throws like find_or_build().
BuiltLibraries find_or_build_cuda_calls_agent(const std::filesystem::path& torch_folder,
                                              const BuildProgress& progress);

}  // namespace optrace
