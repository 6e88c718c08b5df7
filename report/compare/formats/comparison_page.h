#pragma once

#include "report/compare/compare.h"
#include "report/compare/comparison.h"
#include "report/compare/formats/comparison_output.h"
#include "report/formats/html/html_page.h"
#include "report/model/report.h"

namespace optrace {

/// Writes a comparison of two reports with times as one interactive page: docs/html-page.md.
/// `options` are those of the comparison, `page` has the sources of the first report.
void to_html_page(const Report& first, const Report& second, const Comparison& comparison,
                  const ComparisonLabels& labels, const CompareOptions& options,
                  const PageOptions& page, OutputSink& sink);

}  // namespace optrace
