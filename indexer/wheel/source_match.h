#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/wheel/wheel_code.h"

namespace optrace {

/// How the text of a source file fits an anchor of a wheel.
enum class AnchorFit {
  fits,        ///< The use of a macro or of an error class starts at its line.
  no_message,  ///< Same, but its literal message does not follow. The source may name a constant.
  no_macro,    ///< Nothing at its line could have been compiled to it.
};

AnchorFit fit_of(std::string_view text, const WheelAnchor& anchor);

/// Returns the files of a source tree, relative to it, that are not what the wheel was built from:
/// an anchor in the wheel's code is not where the file has it, or more than a few lack their
/// messages. Files without an anchor, and files that the tree lacks, are left out.
std::set<std::string> differing_files(const std::filesystem::path& tree,
                                      const std::vector<WheelAnchor>& anchors);

}  // namespace optrace
