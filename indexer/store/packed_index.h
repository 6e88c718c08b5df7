#pragma once

#include <filesystem>

#include "indexer/store/index_store.h"

namespace optrace {

/// Returns true for the name of an index that is compressed with xz, as packages contain it.
bool is_packed_index(const std::filesystem::path& path);

/// Opens a compressed index. The first call for a file decompresses it into the cache; without a
/// cache, each call decompresses it. Throws Error(usage) if the file is not a compressed index, and
/// Error(failed) if the disk does not accept the decompressed file.
Index open_packed_index(const std::filesystem::path& path);

}  // namespace optrace
