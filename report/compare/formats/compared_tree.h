#pragma once

#include <vector>

#include "report/compare/compare.h"
#include "report/compare/comparison.h"
#include "report/formats/html/page_frames.h"
#include "report/model/report.h"

namespace optrace {

/// Returns the trees of two reports as one, for a page. A frame that both have is one row; a frame
/// that only one has stands below the same frame as there. Functions between the steps that a
/// comparison passes over are left out. Rows of frames with a difference are marked as changed. The
/// reports must outlive the result.
std::vector<PageRow> compared_rows(const Report& first, const Report& second,
                                   const Comparison& comparison, const CompareOptions& options);

}  // namespace optrace
