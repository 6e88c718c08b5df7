#pragma once

#include <filesystem>
#include <fstream>

namespace optrace {

/// Opens a source file that a trace names. The stream fails if the file is not a regular one, or is
/// larger than 16 MiB.
std::ifstream open_source(const std::filesystem::path& file);

}  // namespace optrace
