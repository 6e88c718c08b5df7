#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "platform/exported.h"

namespace optrace {

/// Returns `12 µs`, with three digits.
std::string readable_time(std::uint64_t nanoseconds);

/// Returns `12,345`.
std::string readable_count(std::uint64_t count);
/// Returns `1 event` or `12,345 events`.
std::string readable_count(std::uint64_t count, std::string_view noun);

/// Returns `1 event` or `12345 events`, for text that programs may read.
OPTRACE_EXPORTED std::string counted(std::uint64_t count, std::string_view noun);

/// Returns `1.5 MiB`, with three digits.
std::string readable_size(std::uint64_t bytes);

}  // namespace optrace
