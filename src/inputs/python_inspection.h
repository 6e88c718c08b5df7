#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lookup/locate/located.h"

namespace optrace {

/// Returns true for names that may be passed to inspect_python_name: identifiers joined by dots.
bool is_dotted_python_name(std::string_view name);

/// Finds the definition of a name with Python's `inspect`, for names that no index contains, such
/// as `torchvision.ops.nms`. Imports the module of the name, with the folder `/` as working
/// directory and its output discarded. Returns nothing if there is no such module or name, or if it
/// has no source. Throws Error(failed) if the Python can't be started or does not finish within
/// `limit`.
std::optional<Located> inspect_python_name(const std::filesystem::path& python,
                                           const std::string& name,
                                           std::chrono::milliseconds limit);

}  // namespace optrace
