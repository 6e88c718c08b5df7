#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// The ops of a line of the program that were fused into a kernel.
struct FusedLine {
  std::string file;  ///< Empty if unknown.
  std::uint64_t line = 0;
  std::vector<std::string> ops;  ///< In the order of the graph, each once; empty if unknown.
};

/// Returns the lines of a kernel's origins, in the order of the graph.
std::vector<FusedLine> fused_lines(const std::vector<Origin>& origins);

/// A kernel that torch.compile generated.
struct FusedKernel {
  std::string name;
  std::vector<FusedLine> lines;  ///< In the order of the graph.
  std::uint64_t calls = 0;
  std::uint64_t total = 0;  ///< Nanoseconds in it.
};

/// Returns the generated kernels that ran, the one with the most time first. Kernels of several
/// graphs may have the same name.
std::vector<FusedKernel> fused_kernels(const Report& report);

}  // namespace optrace
