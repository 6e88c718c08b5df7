#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace optrace {

/// All bytes of a file; nothing if it can't be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// Replaces a file by one with this content, or leaves it as it is. Throws as OutputFile does.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace optrace
