#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "indexer/frontend/driver.h"
#include "indexer/frontend/unit_cache.h"
#include "indexer/sources/file_hashes.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/work_folder.h"
#include "indexer/store/index_contents.h"

namespace optrace {

/// Units that share compiler arguments and a precompiled header.
struct ParseGroup {
  std::string name;  ///< `aten`; also the base name of the precompiled header's files.
  std::vector<std::string> arguments;
  /// C++ that includes the headers shared by the units; may be empty.
  std::string precompiled_text;
};

struct ParseUnit {
  std::filesystem::path source;  ///< Absolute.
  std::string name;              ///< Its name in the index.
  std::size_t group = 0;         ///< Index into UnitsToParse::groups.
};

struct UnitsToParse {
  std::vector<ParseGroup> groups;
  std::vector<ParseUnit> units;
  WorkerSetup setup;
};

struct ParseOptions {
  int jobs = 0;  ///< Number of workers; 0: one per processor, fewer if memory is small.
  /// Memory limit of each worker in bytes; 0: an equal share of most of the memory.
  std::uint64_t worker_memory = 0;
};

struct ParsedUnits {
  std::vector<CachedUnit> units;    ///< In no particular order.
  std::vector<CachedUnit> headers;  ///< The findings in the headers shared by each group.
  std::vector<FailedUnit> failed;
  std::size_t parsed_now = 0;  ///< Number of `units` that were parsed in this run.
};

/// Parses units in worker processes. Units whose inputs have not changed are taken from `work`
/// instead. Each result is stored as soon as it arrives, so that a run after an interruption
/// continues there. Throws as Driver::run does.
ParsedUnits parse_units(const UnitsToParse& to_parse, const WorkFolder& work, FileHashes& hashes,
                        const ParseOptions& options, ProgressReporter& progress);

/// Merges the findings in units and in the headers that they share, without duplicates.
IndexContents merge_findings(std::span<const CachedUnit> units,
                             std::span<const CachedUnit> headers);

}  // namespace optrace
