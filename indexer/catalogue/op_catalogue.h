#pragma once

#include <filesystem>

namespace optrace {

/// Writes the ops of the source tree in `folder` to the file `output`, for parse_ops
/// (catalogue_json.h): with the facts from its native_functions.yaml and derivatives.yaml as parsed
/// by its own torchgen, which is run with `python`. An op that torchgen generates from an entry
/// (`autogen:`) has that entry's line. Takes seconds, so callers cache the file. Throws
/// Error(failed) if torchgen can't parse the files.
void write_ops(const std::filesystem::path& folder, const std::filesystem::path& python,
               const std::filesystem::path& output);

}  // namespace optrace
