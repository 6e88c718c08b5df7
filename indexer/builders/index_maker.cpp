#include "indexer/builders/index_maker.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "indexer/builders/tree_work.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/source_tree.h"
#include "indexer/store/index_catalogue.h"
#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/process/interrupt.h"
#include "platform/text/glob.h"

namespace optrace {
namespace {

bool is_selected(const std::string& name, const std::vector<std::string>& only) {
  return only.empty() || std::ranges::any_of(only, [&](const std::string& pattern) {
           return matches_glob(name, pattern);
         });
}

// Returns the units that match `only`, the largest first, so that no large unit is left for last.
std::vector<SourceUnit> selected_units(std::vector<SourceUnit> units,
                                       const std::vector<std::string>& only) {
  std::erase_if(units, [&](const SourceUnit& unit) { return !is_selected(unit.name, only); });
  if (units.empty()) {
    throw Error(ExitStatus::usage, "no unit of the source tree matches --only",
                "The pattern is for paths from the top of the tree, and * matches any characters: "
                "--only 'aten/src/ATen/native/Conv*.cpp'.");
  }
  std::ranges::stable_sort(units, [](const auto& left, const auto& right) {
    return std::filesystem::file_size(left.path) > std::filesystem::file_size(right.path);
  });
  return units;
}

}  // namespace

MadeIndex make_index(const MakeIndexOptions& options) {
  SourceTree tree = open_source_tree(options.source);
  const std::filesystem::path path =
      options.output.empty() ? own_index_path(tree.version) : options.output;
  // Detects an output that can't be written before the work instead of after it.
  {
    const OutputFile trial(path);
  }

  const InterruptGuard guard;
  ProgressReporter progress;
  TreeWork work(std::move(tree), options.python, progress);
  work.prepare();
  const std::vector<SourceUnit> units = selected_units(work.units(), options.only);
  ParsedUnits parsed =
      work.parse(units, {.jobs = options.jobs, .worker_memory = options.worker_memory});
  IndexContents contents = merge_findings(parsed.units, parsed.headers);
  if (contents.functions.empty()) {
    throw Error(ExitStatus::failed,
                fmt::format("no unit could be indexed; the first failure: {}: {}",
                            parsed.failed.empty() ? "none" : parsed.failed.front().name,
                            parsed.failed.empty() ? "" : parsed.failed.front().reason),
                "Rebuild or reinstall optrace, or free some memory.");
  }
  std::set<std::string> differing = work.compare_with_wheel(contents);
  work.write(std::move(contents),
             {{"units", std::to_string(units.size())},
              {"units_failed", std::to_string(parsed.failed.size())},
              {"partial", options.only.empty() ? "" : "yes"},
              {"differing_files", std::to_string(differing.size())}},
             path);
  return {.path = path,
          .torch_version = work.tree().version,
          .units = units.size(),
          .parsed = parsed.parsed_now,
          .failed = std::move(parsed.failed),
          .differing = std::move(differing)};
}

}  // namespace optrace
