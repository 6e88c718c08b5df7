#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "tracer/elf/module_symbols.h"

namespace optrace {

/// A share of something that an index should know.
struct Share {
  std::size_t known = 0;
  std::size_t all = 0;
  double percent() const;  ///< 100 where there is nothing to know.
};

/// How many of the (dispatch key, kernel) pairs of native_functions.yaml an index has the
/// definition of. Overloads are apart: a pair counts once for each op that names it.
struct KernelCoverage {
  struct Missing {
    std::string_view op;  ///< Of the index; `aten::add.out`.
    std::string key;
    std::string kernel;  ///< `at::native::add_out`
  };
  Share pairs;
  std::size_t by_registration = 0;  ///< Known ones whose overload the registered wrapper calls.
  std::vector<Missing>
      not_built;                 ///< For devices whose sources no Linux x86-64 wheel is made from.
  std::vector<Missing> missing;  ///< The others that the index has not got.
  Share available() const;       ///< Of the pairs that a wheel can have.
};
KernelCoverage kernel_coverage(const Index& index);

/// How many of a wheel library's functions an index knows, by class. Instances of templates are
/// left out, clones and cold parts belong to their function.
struct LibraryCoverage {
  struct Class {
    std::string name;          ///< `at::native`, `bindings`
    Share functions;           ///< With a definition, or compiler-made in a class that has one.
    std::size_t implicit = 0;  ///< Of the known: members that the compiler made (destructors).
    std::vector<std::string> missing;  ///< Mangled.
  };
  std::string library;  ///< File name.
  std::vector<Class> classes;
  Class lambdas;            ///< In functions of those classes; apart, since no name tells them.
  Share functions() const;  ///< Of all classes, without lambdas.
};
LibraryCoverage library_coverage(const Index& index, const ModuleSymbols& library);

}  // namespace optrace
