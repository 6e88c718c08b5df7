#pragma once

#include <filesystem>

namespace optrace {

/// The folder with optrace's own files: the build folder, the installation prefix, or the Python
/// package.
std::filesystem::path installation_folder();

// Folders in it. These functions throw Error(failed) if the installation is incomplete.

/// share/optrace: the target-side Python program, sample inputs, indexes, the JSON Schema.
std::filesystem::path data_folder();

/// lib/optrace: the agent and the index worker.
std::filesystem::path library_folder();

/// The file of the program that runs.
std::filesystem::path program_file();

}  // namespace optrace
