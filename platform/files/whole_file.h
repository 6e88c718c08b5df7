#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace optrace {

/// Returns all bytes of a file; nullopt if it can't be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// Replaces a file by one with this content, or leaves it unchanged. Throws like OutputFile.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Same, for a file of a cache: returns false if it can't be written (full disk, read-only cache).
/// The next run then repeats the work.
bool try_write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace optrace
