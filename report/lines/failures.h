#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// A call of CUDA or of a library that failed or was refused.
struct Failure {
  std::vector<const Frame*> path;  ///< Outermost first; the last frame is the call.
  std::string error;               ///< "cudaErrorMemoryAllocation (2)"; empty if unknown.
  std::string why;                 ///< Empty if unknown.
  bool refused = false;            ///< Rejected by the library's rules; false if it failed.
  std::uint64_t calls = 0;         ///< Number of calls.
};

/// Returns all failures in the order of the tree. The report must outlive the result.
std::vector<Failure> failures(const Report& report);

}  // namespace optrace
