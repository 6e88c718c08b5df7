#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// The calls of a library's function or of a device kernel.
struct FunctionUsage {
  std::string library;  ///< `oneDNN`; empty for a device kernel.
  std::string name;
  std::uint64_t calls = 0;
  std::uint64_t total = 0;  ///< Nanoseconds in it; of a kernel, on the device.
};

/// Copies between devices, or between a device and the host.
struct CopyUsage {
  std::string direction;  ///< `host to device`
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
};

struct LibraryUsage {
  std::vector<FunctionUsage> functions;  ///< Of libraries; the most time first.
  std::vector<FunctionUsage> kernels;    ///< Of the device; the most time first.
  std::vector<CopyUsage> copies;         ///< The most bytes first.
};

/// Returns the calls of libraries in a report with times. A function that another one of a library
/// calls is not counted.
LibraryUsage library_usage(const Report& report);

}  // namespace optrace
