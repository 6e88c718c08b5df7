#pragma once

#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "indexer/store/index_store.h"
#include "report/model/report_file.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// What its JSON holds, and what only the trace can tell.
struct Report : WrittenReport {
  nlohmann::json meta;  ///< The trace's, for the header.

  CallTreeStatistics statistics;  ///< Of all threads together.
  std::size_t threads = 0;        ///< That recorded something.
};

struct MergeOptions {
  bool all = false;    ///< Keep wrapper templates, interpreter frames and other plumbing.
  bool times = false;  ///< Say how long each path took: detail's key "time".
};

/// `index` may be null: then no frame of C++ has a source. Throws Error(usage) when the trace or
/// the index turns out to be corrupt.
Report merge(const Trace& trace, const Index* index, const MergeOptions& options);

}  // namespace optrace
