#pragma once

#include <cstdint>
#include <unordered_map>

#include "report/model/report.h"

namespace optrace {

/// The number of ops' calls that record an autograd graph below a frame, for frames below which no
/// backward pass uses any. The keys point into the report.
using UnusedGraphs = std::unordered_map<const Frame*, std::uint64_t>;

/// Ops that other ops call, and the work of imports and of torch.compile's compiler, do not count.
UnusedGraphs find_unused_graphs(const Report& report);

}  // namespace optrace
