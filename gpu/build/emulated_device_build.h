#pragma once

#include <filesystem>
#include <vector>

#include "target/build/built_for_torch.h"

namespace optrace {

/// Returns the emulated CUDA device (gpu/emulated/) for the torch in `torch_folder`
/// (site-packages/torch): the libraries to preload, in this order. There is one for each CUDA
/// library that torch's libraries need, with the real one's SONAME and symbol versions; the first
/// one is liboptrace_device.so. If no prebuilt ones fit, they are built against the headers of the
/// nvidia wheels beside that torch, else of $CUDA_HOME or, if that is not set, /usr/local/cuda or
/// the system's include folder. Throws like find_or_build().
BuiltLibraries find_or_build_emulated_device(const std::filesystem::path& torch_folder,
                                             const BuildProgress& progress);

/// Describes it, for the first of some torches with the same major version of CUDA. What is built
/// serves all of them.
BuildDescription emulated_device_description(const std::vector<std::filesystem::path>& torches);

}  // namespace optrace
