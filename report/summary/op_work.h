#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "report/model/report.h"

namespace optrace {

/// What a function inside an op is to the work of the op. The last kind that an op has is named.
enum class WorkKind : std::uint8_t {
  none,      ///< It hands the op on.
  aside,     ///< It computes shapes, allocates or queries; neither do functions below it work.
  wrapper,   ///< A generated function in the dispatch table, with the kernel's code in it.
  kernel,    ///< The function in the dispatch table.
  copy,      ///< A function of CUDA's runtime that copies or fills.
  launched,  ///< A device kernel whose duration is unknown.
  compute,   ///< A function of a library, or compiled for several CPU capabilities.
  measured   ///< A device kernel whose duration is known.
};

/// Returns the kind of a frame that `above` calls, outside of other ops; that of the function above
/// if the frame is a part of it.
WorkKind work_kind(const Frame& frame, WorkKind above);

/// Returns the name of a function, without those of the lambdas in it.
std::string name_of_work(const Frame& frame);

/// The calls of one function by an op.
struct Work {
  WorkKind kind = WorkKind::none;
  std::uint64_t calls = 0;
  /// Nanoseconds in it and in the functions that are a part of it, outside of other ops.
  std::uint64_t time = 0;
};

/// What did an op's work.
struct MainWork {
  std::string name;           ///< Empty if it is unknown.
  std::ptrdiff_t others = 0;  ///< Functions that share the work.
};

/// Returns the function of the last kind that took the longest, and how many functions of that kind
/// took at least a tenth of its time.
MainWork main_work(const std::map<std::string, Work>& works);

}  // namespace optrace
