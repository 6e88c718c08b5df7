#pragma once

#include <filesystem>

namespace optrace {

/// Returns the copy of a file that PyTorch generated, for when it is gone; empty if there is none.
std::filesystem::path copy_of_generated_file(const std::filesystem::path& file);

}  // namespace optrace
