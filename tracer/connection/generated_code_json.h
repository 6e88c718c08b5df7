#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace optrace {

/// PyTorch tells what it fused into a kernel only while it generates the kernel's file, not when it
/// takes the file from its cache (`origins` and `not_fused`, docs/trace-format.md). This keeps that
/// for each generated file in `folder`, and adds what an earlier trace kept. `generated_code` is
/// the list of a trace's metadata, which is untrusted. A file that can't be read or written is
/// ignored, and so is an empty `folder`.
void complete_kernel_origins(nlohmann::json& generated_code, const std::filesystem::path& folder);

/// Copies the generated files to `folder`, for reports that are read when Inductor's cache is gone.
/// Inductor names a file by a hash of its content, so a file that is there already stays.
void copy_generated_files(const nlohmann::json& generated_code,
                          const std::filesystem::path& folder);

/// Does both for the list in a description of a target, in folders of the cache.
void cache_generated_code(nlohmann::json& described);

}  // namespace optrace
