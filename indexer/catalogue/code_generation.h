#pragma once

#include <filesystem>

#include "indexer/sources/python_installation.h"
#include "indexer/sources/source_tree.h"

namespace optrace {

/// Runs the tree's own generators (torchgen, tools/autograd) with `python` and writes the generated
/// code below `folder`, to the paths that a build in the tree uses:
/// build/aten/src/ATen/RegisterCPU.cpp, torch/csrc/autograd/generated/VariableType_0.cpp. Does not
/// modify the tree. Throws Error(failed) with the last lines of the generators' output.
void generate_code(const SourceTree& tree, const PythonInstallation& python,
                   const std::filesystem::path& folder);

}  // namespace optrace
