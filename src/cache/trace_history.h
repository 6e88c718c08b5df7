#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace optrace {

/// The number of programs whose traces are kept in the cache.
inline constexpr std::size_t kCachedPrograms = 20;

/// Creates a folder in the cache for the traces of a program that was traced without --trace, and
/// removes those of all but the last kCachedPrograms programs. Returns the file for the program's
/// own trace, `NAME.trace`, where characters of `name` that a shell would interpret are replaced.
/// Throws Error(failed) if the cache can't be used.
std::filesystem::path cached_trace_file(std::string_view name);

/// Tells the user where the traces of a program were kept. Does nothing if there are none.
void announce_cached_traces(std::span<const std::filesystem::path> files);

}  // namespace optrace
