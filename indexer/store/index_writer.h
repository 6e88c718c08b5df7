#pragma once

#include <filesystem>

#include "indexer/store/index_contents.h"

namespace optrace {

/// Writes an index file (index_format.h), whole or not at all. A function that occurs several times
/// with one symbol and file (a header's, seen from two units) is stored once, with the calls of
/// all; equal registrations once; of several Python names that are alike the first. The same
/// contents give the same bytes. Throws Error(usage) when `path` can't be written,
/// Error(failed) when the contents do not fit the format.
void write_index(IndexContents contents, const std::filesystem::path& path);

}  // namespace optrace
