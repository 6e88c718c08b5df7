#pragma once

#include <cstdint>
#include <filesystem>

#include "platform/files/descriptor.h"

namespace optrace {

/// Copies a file into sealed memory, which nobody can change, named "optrace-" and the hash of its
/// content. A traced process gets such copies instead of descriptors of files, which the same user
/// in a container could reopen for writing through /proc/self/fd. Throws Error(failed).
Descriptor sealed_copy(const std::filesystem::path& path);

/// Creates the memory to which a process writes its recording and from which the command reads it.
/// Its size is sealed, so that reading and writing can't fail. The command creates it because a
/// limit on the size of files (RLIMIT_FSIZE) applies to the process that does. Throws
/// Error(failed).
Descriptor sealed_region(std::uint64_t bytes);

}  // namespace optrace
