#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// The ops of the source tree in `folder` with what its native_functions.yaml and derivatives.yaml
/// say of them, as its own torchgen, run with `python`, understands them. An op that torchgen makes
/// from an entry (`autogen:`) has that entry's line. Throws Error(failed) when torchgen does not
/// understand the files.
std::vector<IndexContents::Op> read_ops(const std::filesystem::path& folder,
                                        const std::filesystem::path& python);

/// As read_ops, but into a file, for parse_ops. It takes seconds: for who keeps the answer.
void write_ops(const std::filesystem::path& folder, const std::filesystem::path& python,
               const std::filesystem::path& output);

/// What catalogue/ops.py wrote. Throws Error(failed) for anything else.
std::vector<IndexContents::Op> parse_ops(std::string_view json_lines);

}  // namespace optrace
