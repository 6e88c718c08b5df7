#pragma once

#include <filesystem>

#include "target/build/built_for_torch.h"

namespace optrace {

/// Describes the library that records ops in a traced process (target/op_recorder/), for
/// the torch in `torch_folder` (site-packages/torch).
BuildDescription op_agent_description(const std::filesystem::path& torch_folder);

/// The part of it that is the same for all torches with this value of _GLIBCXX_USE_CXX11_ABI.
BuildDescription op_agent_description(int abi);

/// Returns that library. Compiling it, if no prebuilt one fits, takes a minute of processor time
/// and is reported to `progress`. Throws like find_or_build().
BuiltLibraries find_or_build_op_agent(const std::filesystem::path& torch_folder,
                                      const BuildProgress& progress);

}  // namespace optrace
