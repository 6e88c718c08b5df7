#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/model/detail.h"
#include "report/tensors/tensor_log.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// What a trace's log of tensors tells about the calls of ops in its tree.
class TensorDetails {
 public:
  explicit TensorDetails(const Trace& trace);

  /// Returns where the tensors of the first call with this op record are; nothing if the trace has
  /// no log or the call is not in it.
  std::optional<StoredTensors> of(std::uint32_t record) const;

 private:
  std::optional<TensorLog> log_;
  std::unordered_map<std::uint32_t, std::size_t> first_;  // Indexes of calls, by record.
};

/// Returns the lines below a frame in a tree: "self: 3×4 float32 cpu, storage #1 +0", "result: 4×3
/// float32 cpu, storage #1 +0, view of self".
std::vector<std::string> tensor_lines(const StoredTensors& tensors);

}  // namespace optrace
