#include "src/inputs/page_choice.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>

#include "src/inputs/local_sources.h"
#include "tracer/connection/generated_code_cache.h"

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

PageOptions page_options(const Report& report, const std::vector<std::filesystem::path>& traces,
                         bool excerpts) {
  PageOptions page = page_options_of(report);
  page.excerpts = excerpts;
  std::ranges::move(indexed_trees(report.source_version), std::back_inserter(page.sources.copies));
  page.sources.traced_before = last_written(traces);
  page.sources.copy_of = copy_of_generated_file;
  return page;
}

}  // namespace optrace
