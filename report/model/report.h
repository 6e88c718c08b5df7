#pragma once

#include <cstddef>
#include <optional>

#include "report/model/function_entries.h"
#include "report/model/recording.h"
#include "report/model/report_reader.h"
#include "report/model/timeline.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The contents of a report's JSON file, and the parts that exist only when merging a trace.
struct Report : WrittenReport {
  Recording recording;

  CallTreeStatistics statistics;           ///< Sums over all threads.
  std::size_t threads = 0;                 ///< Number of threads that recorded something.
  std::optional<Timeline> timeline;        ///< If MergeOptions::timeline is set.
  std::optional<FunctionEntries> entries;  ///< If MergeOptions::entries is set.
};

}  // namespace optrace
