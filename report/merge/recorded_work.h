#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/model/timeline.h"

namespace optrace {

/// Work of a device's stream, as a trace's record of it describes all works of its kind.
struct RecordedWork {
  std::uint64_t device = 0;
  std::uint64_t stream = 0;
  Timeline::WorkKind kind;
};

/// Reads a record (docs/trace-format.md), which is untrusted. Returns nothing if it describes no
/// work of a stream.
std::optional<RecordedWork> recorded_work(const std::string& record);

}  // namespace optrace
