#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/model/report.h"
#include "report/summary/op_work.h"

namespace optrace {

/// All calls of an op, or of a kernel that torch.compile generated for several.
struct OpUsage {
  std::string op;  ///< `aten::conv2d`, `cpp_fused_add_relu_0`
  std::uint64_t calls = 0;
  std::uint64_t total =
      0;  ///< Nanoseconds in the op. A call inside one of the same op is part of it.
  std::uint64_t own = 0;             ///< Nanoseconds outside of the ops that it calls.
  std::map<std::string, Work> work;  ///< Functions that the op calls outside of other ops, by name.
  /// Calls by the inputs in short: `float32 8×64×128, 128`. Empty without op records.
  std::map<std::string, std::uint64_t> inputs;
};

/// Returns the ops of a report with times, the one with the most time of its own first.
std::vector<OpUsage> op_usage(const Report& report);

/// Returns the key with the largest value; an empty text if there is none.
std::string most_of(const std::map<std::string, std::uint64_t>& counts);

}  // namespace optrace
