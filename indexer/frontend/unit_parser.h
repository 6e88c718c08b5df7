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

/// Units that are compiled alike.
struct ParseGroup {
  std::string name;  ///< `aten`; that of its precompiled header's files.
  std::vector<std::string> arguments;
  std::string precompiled_text;  ///< C++ that includes what its units share; or empty.
};

struct ParseUnit {
  std::filesystem::path source;  ///< Absolute.
  std::string name;              ///< As the index names it.
  std::size_t group = 0;         ///< In UnitsToParse::groups.
};

struct UnitsToParse {
  std::vector<ParseGroup> groups;
  std::vector<ParseUnit> units;
  WorkerSetup setup;
};

struct ParseOptions {
  int jobs = 0;  ///< Worker processes; 0: one a processor, fewer with little memory.
  std::uint64_t worker_memory =
      0;  ///< Bytes that each may have; 0: its share of most of the memory.
};

struct ParsedUnits {
  std::vector<CachedUnit> units;    ///< In no order.
  std::vector<CachedUnit> headers;  ///< What the headers shared by their groups hold.
  std::vector<FailedUnit> failed;
  std::size_t parsed_now = 0;  ///< Of `units`: those that were not kept.
};

/// Has units parsed by workers, but for those of which `work` keeps what they gave and nothing that
/// they are made from has changed. Each result is kept at once: after an interruption the next run
/// goes on where this one was. Throws as Driver::run does.
ParsedUnits parse_units(const UnitsToParse& wanted, const WorkFolder& work, FileHashes& hashes,
                        const ParseOptions& options, ProgressReporter& progress);

/// Everything that units, and the headers that they share, hold, once.
IndexContents merge_findings(std::span<const CachedUnit> units,
                             std::span<const CachedUnit> headers);

}  // namespace optrace
