#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// A call of CUDA's, or of a library's, that failed or was refused.
struct Failure {
  std::vector<const Frame*> path;  ///< Outermost first; the last is the call.
  std::string error;               ///< "cudaErrorMemoryAllocation (2)"; empty if unknown.
  std::string why;                 ///< Empty if unknown.
  bool refused = false;            ///< By the library's rules, not by what happened.
  std::uint64_t calls = 0;         ///< How often.
};

/// All of them, in the order of the tree. The report must outlive the result.
std::vector<Failure> failures(const Report& report);

}  // namespace optrace
