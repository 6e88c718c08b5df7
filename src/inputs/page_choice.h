#pragma once

#include <filesystem>
#include <vector>

#include "report/formats/html/html_page.h"
#include "report/model/report.h"

namespace optrace {

/// Returns what a page can show of the source of a report: the index that fits, the wheel's files
/// and the indexed source trees. `traces` are the files that the report is made of, if any.
/// `excerpts`: the page is to have lines of source.
PageOptions page_options(const Report& report, const std::vector<std::filesystem::path>& traces,
                         bool excerpts);

}  // namespace optrace
