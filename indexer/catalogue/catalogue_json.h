#pragma once

#include <string_view>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// Parses the output of catalogue/ops.py. Throws Error(failed) for any other text.
std::vector<IndexContents::Op> parse_ops(std::string_view json_lines);

/// Parses the output of catalogue/python_names.py. Throws Error(failed) for any other text.
std::vector<IndexContents::PythonName> parse_python_names(std::string_view json_lines);

}  // namespace optrace
