#pragma once

#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// A fact about a frame, printable.
struct FrameFact {
  std::string label;
  std::string value;
};

/// Returns what is known about a frame: the parts of its line in the text report, and then the
/// details under the names that they have in the JSON (docs/report-format.md).
std::vector<FrameFact> frame_details(const Frame& frame, const Frame* parent, const Report& report);

}  // namespace optrace
