#pragma once

#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Returns the new tensors of each device, ordered by its name. They are the results that share no
/// memory with an argument, of ops that call no other op with such a result: the ones that
/// allocate. The shapes are those of the kind of call that a frame has the results of.
std::vector<NewTensors> new_tensors(const Report& report);

}  // namespace optrace
