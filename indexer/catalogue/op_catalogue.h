#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// Returns the ops of the source tree in `folder`, with the facts from its native_functions.yaml
/// and derivatives.yaml as parsed by its own torchgen, which is run with `python`. An op that
/// torchgen generates from an entry (`autogen:`) has that entry's line. Throws Error(failed) if
/// torchgen can't parse the files.
std::vector<IndexContents::Op> read_ops(const std::filesystem::path& folder,
                                        const std::filesystem::path& python);

/// Same as read_ops, but writes to a file, for parse_ops. Takes seconds; for callers that cache the
/// file.
void write_ops(const std::filesystem::path& folder, const std::filesystem::path& python,
               const std::filesystem::path& output);

/// Parses the output of catalogue/ops.py. Throws Error(failed) for any other text.
std::vector<IndexContents::Op> parse_ops(std::string_view json_lines);

}  // namespace optrace
