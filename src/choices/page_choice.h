#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "report/model/report.h"
#include "report/output/html_page.h"
#include "report/output/source_copies.h"

namespace optrace {

/// Returns the source trees of a PyTorch version that were indexed on this machine, and the code
/// that was generated for them.
SourceCopies indexed_trees(std::string_view version);

/// Returns what a page can show of the source of a report: the index that fits, the wheel's files
/// and the indexed source trees. `traces` are the files that the report is made of, if any.
/// `excerpts`: the page is to have lines of source.
PageOptions page_options(const Report& report, const std::vector<std::filesystem::path>& traces,
                         bool excerpts);

}  // namespace optrace
