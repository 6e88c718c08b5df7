#include "src/choices/page_choice.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>

#include "indexer/sources/source_tree.h"
#include "indexer/sources/work_folder.h"
#include "platform/error.h"

namespace optrace {
namespace {

// Returns the time at which the last of the files was written; nothing if there are none.
std::optional<std::filesystem::file_time_type> last_written(
    const std::vector<std::filesystem::path>& files) {
  std::optional<std::filesystem::file_time_type> last;
  for (const std::filesystem::path& file : files) {
    std::error_code failed;
    const auto written = std::filesystem::last_write_time(file, failed);
    if (!failed) last = std::max(last.value_or(written), written);
  }
  return last;
}

}  // namespace

SourceCopies indexed_trees(std::string_view version) {
  SourceCopies trees;
  for (const KeptWork& work : list_kept_work()) {
    try {
      if (open_source_tree(work.tree).version != version) continue;
    } catch (const Error&) {
      continue;  // No longer a PyTorch tree.
    }
    trees.push_back({"", work.tree});
    trees.push_back({"", work.path / "generated"});
  }
  return trees;
}

PageOptions page_options(const Report& report, const std::vector<std::filesystem::path>& traces,
                         bool excerpts) {
  PageOptions page = page_options_of(report);
  page.excerpts = excerpts;
  std::ranges::move(indexed_trees(report.source_version), std::back_inserter(page.sources.copies));
  page.sources.traced_before = last_written(traces);
  return page;
}

}  // namespace optrace
