#pragma once

#include <filesystem>

#include "platform/descriptor.h"

namespace optrace {

/// A copy of a file in memory that nobody can change (sealed), named "optrace-" and its content's
/// hash. A process that is traced gets such copies, never a descriptor of the file: the same user
/// in a container can open that again for writing through /proc/self/fd. Throws Error(failed).
Descriptor sealed_copy(const std::filesystem::path& path);

}  // namespace optrace
