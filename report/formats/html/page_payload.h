#pragma once

#include "platform/files/output_sink.h"
#include "report/findings/findings.h"
#include "report/formats/html/html_page.h"
#include "report/model/report.h"

namespace optrace {

/// Writes the data of a report's page (docs/html-page.md), compressed.
void write_payload(const Report& report, const PageOptions& options, const FindingOptions& findings,
                   OutputSink& sink);

/// Same, for a comparison.
void write_payload(ComparedPage page, const PageOptions& options, OutputSink& sink);

}  // namespace optrace
