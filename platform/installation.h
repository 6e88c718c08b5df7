#pragma once

#include <filesystem>

namespace optrace {

/// Where optrace's own files lie: beside the command in a build tree, or below the prefix that it
/// was installed to; for the Python module, in its package. Both throw Error(failed) when the
/// installation is incomplete.

/// share/optrace: the target-side Python program, sample inputs, indexes, the JSON Schema.
std::filesystem::path data_folder();

/// lib/optrace: the agent and the index worker.
std::filesystem::path library_folder();

/// The folder that holds the command, or the Python module, that this code is part of.
std::filesystem::path executable_folder();

}  // namespace optrace
