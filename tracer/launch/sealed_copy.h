#pragma once

#include <cstdint>
#include <filesystem>

#include "platform/descriptor.h"

namespace optrace {

/// A copy of a file in memory that nobody can change (sealed), named "optrace-" and its content's
/// hash. A process that is traced gets such copies, never a descriptor of the file: the same user
/// in a container can open that again for writing through /proc/self/fd. Throws Error(failed).
Descriptor sealed_copy(const std::filesystem::path& path);

/// New memory for a process to write into what it records, and for the command to read. Its size is
/// fixed (sealed), so that neither reading nor writing it can fail. The command makes it: a limit
/// on the size of files (RLIMIT_FSIZE) counts for who does. Throws Error(failed).
Descriptor sealed_region(std::uint64_t bytes);

}  // namespace optrace
