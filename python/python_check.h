#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <pybind11/pybind11.h>

#include "report/check/check.h"

namespace optrace {

/// `optrace.Check`: the result of checking a report against rules.
class PythonCheck {
 public:
  PythonCheck(std::shared_ptr<const Report> report, std::vector<CheckResult> results)
      : report_(std::move(report)), results_(std::move(results)) {}

  std::string_view status() const;
  /// The list `rules` of schema optrace.check/1.
  pybind11::object rules() const;
  /// Returns the output of `optrace check --format`, without colours. Throws Error(usage) for an
  /// unknown format.
  std::string text(const std::string& format) const;
  std::string description() const;

 private:
  std::shared_ptr<const Report> report_;
  std::vector<CheckResult> results_;
};

/// Converts a Python value to rules: a sentence, the path of a file of rules, a dict with the
/// contents of such a file or with one rule, or a list of these. Throws Error(usage) for any other
/// value and for an invalid rule.
std::vector<Rule> rules_of(const pybind11::handle& expectation);

void define_check(pybind11::module_& module);

}  // namespace optrace
