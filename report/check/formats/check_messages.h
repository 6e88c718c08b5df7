#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/check/check.h"

namespace optrace {

// The parts that the output formats of results have in common.

/// Returns "passed", "failed" or "error".
constexpr std::string_view name_of(CheckResult::Status status) {
  constexpr std::array<std::string_view, 3> kNames = {"passed", "failed", "error"};
  return kNames[static_cast<std::size_t>(status)];
}

/// Returns the number of results with this status.
std::size_t count(const std::vector<CheckResult>& results, CheckResult::Status status);

/// Formats the result with the rule's reason and the remedy: `found: 14 (...)`.
std::string sentence(const CheckResult& result);

/// Returns `  file:line`; empty if the file is unknown.
std::string place_of(const CheckStep& step);

/// Selects the steps of a long path to show: the outermost line of the program's own code (such as
/// a test), the innermost one, and the end. Null stands for steps that are left out. JSON contains
/// all steps.
std::vector<const CheckStep*> shown_steps(const std::vector<CheckStep>& path);

/// Formats the shown steps: `Conv2d.forward > aten::conv2d > ...`.
std::string call_path(const CheckResult& result);

/// Returns the places for tools that annotate files: the lines of the program's own Python code, or
/// else the line of the rule. Its file is empty if there is none.
std::vector<CheckPlace> annotated(const CheckResult& result);

/// Returns ` (3 times at this line)` if the rule found something at several lines, else an empty
/// string.
std::string share_of(const CheckPlace& place, const CheckResult& result);

/// Returns `train.py:12 in step ×3` for each line, if there are several, and at most `limit`.
std::vector<std::string> lines_of_places(const CheckResult& result, std::size_t limit);

}  // namespace optrace
