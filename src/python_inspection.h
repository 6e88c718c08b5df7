#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "report/locate/locate.h"

namespace optrace {

/// True for what may be asked of Python: words with dots between them.
bool is_dotted_python_name(std::string_view name);

/// Asks a Python where a name is defined, by `inspect`: for what no index knows, such as
/// `torchvision.ops.nms`. The module that the name is in is imported, in the folder `/`, with its
/// output kept apart. Nothing where there is no such module or name, or none with a source. Throws
/// Error(failed) when the Python can't be started, or is not done within `limit`.
std::optional<Located> inspect_python_name(const std::filesystem::path& python,
                                           const std::string& name,
                                           std::chrono::milliseconds limit);

}  // namespace optrace
