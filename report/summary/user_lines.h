#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// The ops that a line of the program's own Python code leads to, without those that other ops
/// call, and the autograd nodes of their derivatives.
struct UserLine {
  std::string file;  ///< Empty if no line of the program is known, as on autograd's threads.
  std::uint32_t line = 0;
  std::string function;
  std::string why_no_line;                   ///< Empty if there is one.
  std::uint64_t calls = 0;                   ///< Calls of ops and nodes.
  std::uint64_t total = 0;                   ///< Nanoseconds in them.
  std::map<std::string, std::uint64_t> ops;  ///< Nanoseconds by name.
};

/// Returns the lines of a report with times, the one with the most time first.
std::vector<UserLine> user_lines(const Report& report);

}  // namespace optrace
