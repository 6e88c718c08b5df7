#pragma once

#include <filesystem>

#include "indexer/store/index_store.h"

namespace optrace {

// In packages, all indexes are in one xz stream, since they are much alike. A text file for each,
// `torch-2.6.0.index.part`, names the stream's file, the index's first byte in what it decodes to,
// and its size: `indexes.xz 0 29340636` (setup/pack-indexes.sh).

/// Returns true for the name of such a text file.
bool is_packed_index(const std::filesystem::path& path);

/// Opens the index of a text file. The first call decompresses it into the cache; without a cache,
/// each call decompresses it. Throws Error(usage) if there is no such index, and Error(failed) if
/// the disk does not accept the decompressed file.
Index open_packed_index(const std::filesystem::path& path);

}  // namespace optrace
