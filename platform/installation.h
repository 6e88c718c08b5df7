#pragma once

#include <filesystem>

namespace optrace {

/// The folders with optrace's own files: beside the command in a build tree, or below the
/// installation prefix; for the Python module, in its package. data_folder() and library_folder()
/// throw Error(failed) if the installation is incomplete.

/// share/optrace: the target-side Python program, sample inputs, indexes, the JSON Schema.
std::filesystem::path data_folder();

/// lib/optrace: the agent and the index worker.
std::filesystem::path library_folder();

/// The folder of the command, or of the Python module, that contains this code.
std::filesystem::path executable_folder();

}  // namespace optrace
