#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <pybind11/pybind11.h>

#include "report/check/check.h"

namespace optrace {

/// `optrace.Check`: what came of holding a report against rules.
class PythonCheck {
 public:
  PythonCheck(std::shared_ptr<const Report> report, std::vector<CheckResult> results)
      : report_(std::move(report)), results_(std::move(results)) {}

  std::string_view status() const;
  /// The list `rules` of schema optrace.check/1.
  pybind11::object rules() const;
  /// As `optrace check --format` has it; without colours. Throws Error(usage) for another format.
  std::string text(const std::string& format) const;
  std::string description() const;

 private:
  std::shared_ptr<const Report> report_;
  std::vector<CheckResult> results_;
};

/// The rules of a Python value: a sentence, the path of a file of rules, what such a file could
/// have in it as dict, a rule of one, or a list of all these. Throws Error(usage) for anything
/// else, and for what is no rule.
std::vector<Rule> rules_of(const pybind11::handle& expectation);

void define_check(pybind11::module_& module);

}  // namespace optrace
