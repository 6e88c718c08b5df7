#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/wheel/wheel_code.h"

namespace optrace {

/// Returns true if the text of a source file can be what an anchor of a wheel was compiled from:
/// the use of a macro or of an error class starts at its line, and a literal message follows.
bool matches(std::string_view text, const WheelAnchor& anchor);

/// Returns the files of a source tree, relative to it, that are not what the wheel was built from:
/// an anchor in the wheel's code is not where the file has it. Files without an anchor, and files
/// that the tree lacks, are left out.
std::set<std::string> differing_files(const std::filesystem::path& tree,
                                      const std::vector<WheelAnchor>& anchors);

}  // namespace optrace
