#pragma once

#include <cstddef>
#include <string>

#include "report/model/report.h"

namespace optrace {

struct HtmlOptions {
  std::size_t most_frames = 4000;  ///< Further frames are only counted, in a final line.
};

/// Returns the report as an HTML fragment for a notebook: nested <details> with their own style,
/// without scripts or external resources. All text from the trace is escaped. Links lead only to
/// PyTorch's source at GitHub.
std::string to_html(const Report& report, const HtmlOptions& options = {});

}  // namespace optrace
