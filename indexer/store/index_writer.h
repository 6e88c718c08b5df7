#pragma once

#include <filesystem>

#include "indexer/store/index_contents.h"

namespace optrace {

/// Writes an index file (index_format.h) atomically. Functions with equal symbol and file (of a
/// header that several units include) are stored once, with the calls of all. Equal registrations
/// are stored once, and of several equal Python names the first. Equal contents produce equal
/// bytes. Throws Error(usage) if `path` can't be written, Error(failed) if the contents do not fit
/// the format.
void write_index(IndexContents contents, const std::filesystem::path& path);

}  // namespace optrace
