#include "python/python_check.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/error.h"
#include "present/readable_numbers.h"
#include "python/python_values.h"
#include "report/check/formats/check_output.h"

namespace optrace {

namespace py = pybind11;

namespace {

Error no_expectation(const std::string& why) {
  return {ExitStatus::usage, why,
          "Give a rule ('never calls *slow_conv*'), the path of a file of rules, a dict as in such "
          "a file, or a list of these; docs/check-format.md lists all rules."};
}

bool is_path(const py::handle& value) {
  return py::hasattr(value, "__fspath__");
}

/// Parses a dict with the parser for files of rules; JSON is YAML.
std::vector<Rule> rules_of_object(const py::dict& object) {
  py::dict whole = object;
  if (!object.contains("rules")) {
    py::list one;
    one.append(object);
    whole = py::dict();
    whole["rules"] = one;
  }
  try {
    return parse_rules(to_json_value(whole).dump());
  } catch (const nlohmann::json::exception&) {  // Text that is not Unicode, or NaN.
    throw no_expectation(
        fmt::format("{} contains values that JSON can't represent", described(object)));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError) &&
        !error.matches(PyExc_RecursionError))
      throw;
    throw no_expectation(
        fmt::format("{} contains values that JSON can't represent", described(object)));
  }
}

std::vector<Rule> rules_of_one(const py::handle& expectation) {
  if (py::isinstance<py::str>(expectation))
    return expected_rules(path_of(py::reinterpret_borrow<py::object>(expectation)).string());
  if (is_path(expectation))
    return read_rules(path_of(py::reinterpret_borrow<py::object>(expectation)));
  if (py::isinstance<py::dict>(expectation))
    return rules_of_object(py::reinterpret_borrow<py::dict>(expectation));
  throw no_expectation(fmt::format("{} is not a rule", described(expectation)));
}

}  // namespace

std::vector<Rule> rules_of(const py::handle& expectation) {
  const bool text = py::isinstance<py::str>(expectation) || py::isinstance<py::bytes>(expectation);
  if (text || is_path(expectation) || !py::isinstance<py::sequence>(expectation))
    return rules_of_one(expectation);
  std::vector<Rule> rules;
  for (const py::handle& one : py::reinterpret_borrow<py::sequence>(expectation))
    std::ranges::move(rules_of_one(one), std::back_inserter(rules));
  if (rules.empty()) throw no_expectation("the list of rules is empty");
  return rules;
}

std::string_view PythonCheck::status() const {
  switch (status_of(results_)) {
    case CheckResult::Status::passed:
      return "passed";
    case CheckResult::Status::failed:
      return "failed";
    case CheckResult::Status::error:
      break;
  }
  return "error";
}

py::object PythonCheck::rules() const {
  return python_of_json(text("json"))["rules"];
}

std::string PythonCheck::text(const std::string& format) const {
  if (format == "text") return to_text(results_, {});
  if (format == "json") return to_json(*report_, results_);
  if (format == "junit") return to_junit(results_);
  if (format == "sarif") return to_sarif(results_);
  if (format == "github") return to_github(results_);
  throw Error(ExitStatus::usage,
              fmt::format("format={} is not a format", described(py::str(format))),
              "Use text, json, junit, sarif or github.");
}

std::string PythonCheck::description() const {
  const auto passed =
      std::ranges::count(results_, CheckResult::Status::passed, &CheckResult::status);
  return fmt::format("<optrace.Check {}: {} of {} passed>", status(), passed,
                     counted(results_.size(), "rule"));
}

void define_check(py::module_& module) {
  py::class_<PythonCheck>(module, "Check")
      .def_property_readonly("status", &PythonCheck::status)
      .def_property_readonly("passed",
                             [](const PythonCheck& it) { return it.status() == "passed"; })
      .def_property_readonly("rules", &PythonCheck::rules)
      .def(
          "report",
          [](const PythonCheck& it, const std::string& format) { return text(it.text(format)); },
          py::arg("format") = "text")
      .def("__bool__", [](const PythonCheck& it) { return it.status() == "passed"; })
      .def("__str__", [](const PythonCheck& it) { return text(it.text("text")); })
      .def("__repr__", [](const PythonCheck& it) { return text(it.description()); });
}

}  // namespace optrace
