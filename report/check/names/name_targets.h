#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// The functions, ops and classes that a rule's name refers to.
struct NameTargets {
  /// A function bound in C++. Represents frames that were not called by name in Python: `x + y`.
  struct Binding {
    std::string symbol;  ///< Canonical symbol.
    std::string file;    ///< File of its definition; empty if unknown.
  };
  /// Patterns for functions and ops, in which `*` matches any characters: the given name, and the
  /// names under which the same object is defined.
  std::vector<std::string> patterns;
  /// Python classes. Frames of their methods represent them, but not those of classes inside.
  std::vector<std::string> classes;
  std::vector<Binding> bindings;
  std::string why_unobservable;  ///< Why no frame can be attributed to the name; empty if one can.

  /// Returns true if a frame is a call of the name. A method that is called by another method of
  /// its class is not a call of the class. `inside` is the innermost Python function above the
  /// frame, or empty.
  bool names(const Frame& frame, std::string_view inside) const;
  /// Same, by the name alone of a function, an op, a method or a binding.
  bool names(std::string_view function) const;
  bool names_operator(std::string_view op) const;
  bool names_method(std::string_view function, std::string_view inside) const;
  bool names_binding(std::string_view symbol, std::string_view file) const;
};

/// Returns `sgesdd_` for `SGESDD`, `sgesdd` and `sgesdd_`, the spellings of one function of BLAS or
/// LAPACK. Empty for other names.
std::string fortran_name(std::string_view name);

}  // namespace optrace
