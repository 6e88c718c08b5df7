#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "report/model/report.h"

namespace optrace {

/// The tensors that ops create in memory of their own.
struct NewTensors {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< Without memory that an allocator adds.
};

/// Returns the new tensors of each device, by its name. They are the results that share no memory
/// with an argument, of ops that call no other op with such a result: the ones that allocate. The
/// shapes are those of the kind of call that a frame has the results of.
std::map<std::string, NewTensors> new_tensors(const Report& report);

}  // namespace optrace
