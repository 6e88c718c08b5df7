#pragma once

#include <cstdint>
#include <optional>

#include "report/model/timeline.h"
#include "tracer/trace/op_record.h"

namespace optrace {

/// Work of a device's stream, as a trace's record of it describes all works of its kind.
struct RecordedWork {
  std::uint64_t device = 0;
  std::uint64_t stream = 0;
  Timeline::WorkKind kind;
};

/// Returns nothing if a record describes no work of a stream.
std::optional<RecordedWork> recorded_work(OpRecord record);

}  // namespace optrace
