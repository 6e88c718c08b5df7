#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "platform/exported.h"
#include "report/check/check_rules.h"
#include "report/check/names/known_names.h"
#include "report/model/report.h"

namespace optrace {

/// A frame on the path to something that a rule found.
struct CheckStep {
  Layer layer = Layer::runtime;
  std::string name;
  std::string file;        ///< Empty if unknown.
  std::uint32_t line = 0;  ///< The line that calls the next step if known, else the definition's.
  bool exact = true;       ///< The line is not approximate.
};

/// A line of the program's own Python code that leads to something a rule found, with its count.
struct CheckPlace {
  std::string function;
  std::string file;
  std::uint32_t line = 0;
  std::uint64_t count = 0;
  std::optional<CallRange> range{};  ///< Range of the call, if all are the same call of the line.
};

struct CheckResult {
  enum class Status : std::uint8_t {
    passed,
    failed,
    error,  ///< Undecidable: the name is unknown, or the report lacks the data.
  };
  Rule rule;
  Status status = Status::passed;
  std::string found;                 ///< Text such as "called 3 times".
  std::string remedy;                ///< Suggested action; only for `error`.
  std::vector<CheckStep> path;       ///< Path to the first occurrence, outermost first.
  std::vector<CheckPlace> places{};  ///< One entry for each line, the most frequent first.
};

struct CheckOptions {
  bool allow_unknown = false;  ///< Treat an unknown name as a name that was not called.
  bool all = false;            ///< Count ops that imports of torch's modules and compilations call.
};

/// Checks a report against rules and returns the results in their order. A report without frames
/// passes no rule.
std::vector<CheckResult> check(const Report& report, const KnownNames& names,
                               const std::vector<Rule>& rules, const CheckOptions& options = {});

/// Returns the worst status of all results.
OPTRACE_EXPORTED CheckResult::Status status_of(const std::vector<CheckResult>& results);

}  // namespace optrace
