#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace optrace {

/// PyTorch tells what it fused into a kernel only while it generates the kernel's file, not when it
/// takes the file from its cache (`origins`, docs/trace-format.md). This keeps the origins of each
/// generated file in `folder`, and adds those that an earlier trace kept. `generated_code` is the
/// list of a trace's metadata, which is untrusted. A file that can't be read or written is ignored,
/// and so is an empty `folder`.
void complete_kernel_origins(nlohmann::json& generated_code, const std::filesystem::path& folder);

/// Same, for the metadata of a trace, with a folder of the cache.
void complete_kernel_origins(nlohmann::json& meta);

}  // namespace optrace
