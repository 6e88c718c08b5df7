#pragma once

#include <cstddef>
#include <string>

#include "report/model/report.h"

namespace optrace {

struct HtmlOptions {
  std::size_t most_frames = 4000;  ///< Beyond these, a line says how many are left out.
};

/// The report as a fragment for a notebook: nested <details>, styled by itself, with no script and
/// nothing to load. Everything that came from the trace is escaped, whatever bytes it has; links go
/// to PyTorch's source at GitHub only.
std::string to_html(const Report& report, const HtmlOptions& options = {});

}  // namespace optrace
