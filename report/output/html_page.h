#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "indexer/store/index_store.h"
#include "report/findings/findings.h"
#include "report/model/report.h"
#include "report/output/compressed_text.h"
#include "report/output/page_excerpts.h"
#include "report/output/page_frames.h"

namespace optrace {

/// What a page shows besides the report.
struct PageOptions {
  std::shared_ptr<const Index> index;  ///< For the facts of ops; may be null.
  ExcerptSources sources;
  bool excerpts = true;  ///< Show lines of source.
};

/// Writes a report with times as one interactive page, which needs no other file and no network.
/// The report is in it as compressed data: docs/html-page.md.
void write_html_page(const Report& report, const PageOptions& options,
                     const FindingOptions& findings, const TextSink& sink);

/// Returns the index that fits a report, and the files of the wheel that was traced, if they are on
/// this machine.
PageOptions page_options_of(const Report& report);

/// Same as write_html_page(), as one text.
std::string to_html_page(const Report& report, const PageOptions& options,
                         const FindingOptions& findings);

/// Returns the page as an HTML fragment for a notebook: a frame that can run the page's script, but
/// can't reach the notebook.
std::string to_notebook_frame(const Report& report, const PageOptions& options);

/// Same as write_html_page(), for the tree of a comparison. The head and the summary are those of
/// the first report. `comparison` has the keys of docs/html-page.md.
void write_comparison_page(const Report& first, std::vector<PageRow> rows,
                           const nlohmann::json& comparison, const PageOptions& options,
                           const TextSink& sink);

}  // namespace optrace
