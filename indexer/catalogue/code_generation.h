#pragma once

#include <filesystem>

#include "indexer/sources/python_installation.h"
#include "indexer/sources/source_tree.h"

namespace optrace {

/// Runs the tree's own generators (torchgen, tools/autograd) with `python` and puts what they make
/// below `folder`, where a build in the tree puts it: build/aten/src/ATen/RegisterCPU.cpp,
/// torch/csrc/autograd/generated/VariableType_0.cpp. The tree stays as it is. Throws Error(failed)
/// with the generators' last words.
void generate_code(const SourceTree& tree, const PythonInstallation& python,
                   const std::filesystem::path& folder);

}  // namespace optrace
