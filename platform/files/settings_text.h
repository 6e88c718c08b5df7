#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace optrace {

// Small text files with a line for each setting: torch/version.py and pyvenv.cfg, of about 300
// bytes each.

/// Returns the first 64 KiB of a file; nullopt if it is not a regular file or can't be read.
std::optional<std::string> read_settings(const std::filesystem::path& file);

/// Returns the right side of the first line `name = value` or `name: type = value`, without spaces
/// around it; empty if there is none.
std::string_view assigned_value(std::string_view text, std::string_view name);

}  // namespace optrace
