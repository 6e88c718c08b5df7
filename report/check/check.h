#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/check/check_rules.h"
#include "report/check/known_names.h"
#include "report/model/report.h"
#include "report/output/terminal_text.h"

namespace optrace {

/// A frame on the way to what a rule found.
struct CheckStep {
  Layer layer = Layer::runtime;
  std::string name;
  std::string file;        ///< Empty if unknown.
  std::uint32_t line = 0;  ///< That calls the next step, where it is known; else the definition's.
};

/// A line of the program's own Python that leads to what a rule found, and how often.
struct CheckPlace {
  std::string function;
  std::string file;
  std::uint32_t line = 0;
  std::uint64_t count = 0;
  std::optional<CallRange> range{};  ///< Of the call, if all come from the same one of the line.
};

struct CheckResult {
  enum class Status : std::uint8_t {
    passed,
    failed,
    error,  ///< It can't be told: nothing of that name exists, or the report lacks what it takes.
  };
  Rule rule;
  Status status = Status::passed;
  std::string found;                 ///< A sentence.
  std::string remedy;                ///< error: what to do.
  std::vector<CheckStep> path;       ///< To what was found first, outermost first.
  std::vector<CheckPlace> places{};  ///< Each once, the most frequent first.
};

struct CheckOptions {
  bool allow_unknown = false;  ///< A name that nothing has is one that was not called.
};

/// Holds a report against rules; in the rules' order. A report without frames passes none.
std::vector<CheckResult> check(const Report& report, const KnownNames& names,
                               const std::vector<Rule>& rules, const CheckOptions& options = {});

/// The worst of all.
CheckResult::Status status_of(const std::vector<CheckResult>& results);

/// For people: a line for each rule, with the way to what was found.
std::string check_to_text(const std::vector<CheckResult>& results, const TerminalStyle& style);
/// For programs: schema optrace.check/1.
std::string check_to_json(const Report& report, const std::vector<CheckResult>& results);
/// For CI: JUnit's XML, SARIF 2.1.0, and workflow commands of GitHub Actions.
std::string check_to_junit(const std::vector<CheckResult>& results);
std::string check_to_sarif(const std::vector<CheckResult>& results);
std::string check_to_github(const std::vector<CheckResult>& results);

}  // namespace optrace
