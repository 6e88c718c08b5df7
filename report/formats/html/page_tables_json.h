#pragma once

#include <nlohmann/json.hpp>

#include "indexer/store/index_store.h"
#include "report/findings/findings.h"
#include "report/formats/html/page_frames.h"
#include "report/model/report.h"

namespace optrace {

// The parts of a page besides the tree, with the keys of docs/html-page.md. Only files that write
// the page's JSON include this header.

/// The head of the text report: pairs of a label and a text.
nlohmann::json page_header(const Report& report);

/// The sums of a report with times.
nlohmann::json page_summary(const Report& report);

/// Findings in a report, of which `rows` are the frames.
nlohmann::json page_findings(const Report& report, const std::vector<PageRow>& rows,
                             const FindingOptions& options);

/// The facts of the ops in `rows` that the index has. `exact`: its lines are those of the report's
/// torch.
nlohmann::json page_op_facts(const std::vector<PageRow>& rows, const Index& index, bool exact);

}  // namespace optrace
