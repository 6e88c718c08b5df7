#include "report/check/names/name_targets.h"

#include <algorithm>

#include "platform/text/ascii_text.h"
#include "platform/text/glob.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/names/name_patterns.h"
#include "pytorch/symbols/symbol_key.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

// Returns the part of a path after the last slash.
std::string_view last_component(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_member(std::string_view function, std::string_view type) {
  return function.size() > type.size() && function.starts_with(type) &&
         function[type.size()] == '.';
}

bool names_fortran(std::string_view pattern, std::string_view function) {
  const std::string wanted = fortran_name(pattern);
  return !wanted.empty() && matches_glob(fortran_name(function), wanted);
}

}  // namespace

std::string fortran_name(std::string_view name) {
  std::string folded;
  for (const char c : name.substr(0, name.find_last_not_of('_') + 1)) {
    if (!is_word_character(c) && c != '*') return {};
    folded += lower(c);
  }
  folded += '_';
  return library_name(folded) == "BLAS/LAPACK" ? folded : std::string();
}

bool NameTargets::names(std::string_view function) const {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return names_function(pattern, function); });
}

bool NameTargets::names_operator(std::string_view op) const {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return names_op(pattern, op); });
}

bool NameTargets::names_method(std::string_view function, std::string_view inside) const {
  return std::ranges::any_of(classes, [&](const std::string& type) {
    return is_member(function, type) && function.rfind('.') == type.size() &&
           !is_member(inside, type);
  });
}

bool NameTargets::names_binding(std::string_view symbol, std::string_view file) const {
  if (bindings.empty()) return false;
  const std::string canonical = canonical_symbol(symbol);
  return std::ranges::any_of(bindings, [&](const Binding& binding) {
    return binding.symbol == canonical && (binding.file.empty() || file.empty() ||
                                           last_component(binding.file) == last_component(file));
  });
}

bool NameTargets::names(const Frame& frame, std::string_view inside) const {
  if (names(frame.name)) return true;
  if (frame.op && is_op_call(frame) && names_operator(*frame.op)) return true;
  const std::string& python_name = frame.detail->python_name;
  for (const std::string* const name : {&python_name, &frame.detail->implementation})
    if (!name->empty() && names(*name)) return true;
  switch (frame.layer) {
    case Layer::python:
      return names_method(frame.name, inside);
    case Layer::library:
      return std::ranges::any_of(
          patterns, [&](const std::string& pattern) { return names_fortran(pattern, frame.name); });
    case Layer::binding:
      return python_name.empty() && frame.symbol &&
             names_binding(*frame.symbol, frame.source ? std::string_view(frame.source->file) : "");
    default:
      return false;
  }
}

}  // namespace optrace
