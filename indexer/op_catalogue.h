#pragma once

#include <filesystem>
#include <vector>

#include "indexer/index_writer.h"

namespace optrace {

/// The ops of a native_functions.yaml with the line of each entry; an op that torchgen derives from
/// an entry (`autogen:`) has that entry's line. Throws Error(usage) when the file is no such list.
std::vector<IndexContents::Op> read_ops(const std::filesystem::path& native_functions);

}  // namespace optrace
