#pragma once

#include <filesystem>

#include "indexer/store/index_contents.h"
#include "indexer/wheel/function_names.h"

namespace optrace {

/// Indexes the C++ files that PyTorch's generators wrote below `folder`, without a compiler: the
/// definitions, the calls in them, and the registrations. Calls are found by the names that they
/// write, so a call of a member of an unknown type is found only if its class is one that generated
/// code uses. Adds the classes of the files to `names`. Files for other platforms are left out.
IndexContents index_generated_code(const std::filesystem::path& folder, FunctionNames& names);

}  // namespace optrace
