#pragma once

#include <memory>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "platform/files/output_sink.h"
#include "report/findings/findings.h"
#include "report/formats/html/page_excerpts.h"
#include "report/formats/html/page_frames.h"
#include "report/model/report.h"

namespace optrace {

/// What a page shows besides the report.
struct PageOptions {
  std::shared_ptr<const Index> index;  ///< For the facts of ops; may be null.
  ExcerptSources sources;
  bool excerpts = true;  ///< Show lines of source.
};

/// Writes a report with times as one interactive page, which needs no other file and no network.
/// The report is in it as compressed data: docs/html-page.md.
void to_html_page(const Report& report, const PageOptions& options, const FindingOptions& findings,
                  OutputSink& sink);

/// Returns the index that fits a report, and the files of the wheel that was traced, if they are on
/// this machine.
PageOptions page_options_of(const Report& report);

/// Returns the page as an HTML fragment for a notebook: a frame that can run the page's script, but
/// can't reach the notebook.
std::string to_notebook_frame(const Report& report, const PageOptions& options);

/// The contents of a comparison's page.
struct ComparedPage {
  const Report& first;        ///< The head and the summary are its own.
  std::vector<PageRow> rows;  ///< The tree.
  std::string comparison;     ///< JSON text with the keys of docs/html-page.md.
};

/// Same as to_html_page(), for a comparison.
void to_comparison_page(ComparedPage page, const PageOptions& options, OutputSink& sink);

}  // namespace optrace
