#pragma once

#include <filesystem>
#include <string>

namespace optrace {

/// All bytes of a file; empty when it can't be read.
std::string file_text(const std::filesystem::path& path);

}  // namespace optrace
