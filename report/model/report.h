#pragma once

#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "indexer/store/index_store.h"
#include "report/model/report_file.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The contents of a report's JSON file, and the parts that exist only when merging a trace.
struct Report : WrittenReport {
  nlohmann::json meta;  ///< Metadata of the trace, for the header.

  CallTreeStatistics statistics;  ///< Sums over all threads.
  std::size_t threads = 0;        ///< Number of threads that recorded something.
};

struct MergeOptions {
  bool all = false;    ///< Keep wrapper templates, interpreter frames and other plumbing.
  bool times = false;  ///< Adds the duration of each path: detail's key "time".
};

/// `index` may be null; then no C++ frame has a source. Throws Error(usage) if the trace or the
/// index is corrupt.
Report merge(const Trace& trace, const Index* index, const MergeOptions& options);

}  // namespace optrace
