#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// The part of a total that an index contains.
struct Share {
  std::size_t known = 0;
  std::size_t all = 0;
  double percent() const;  ///< 100 if `all` is 0.
};

/// Counts how many of the (dispatch key, kernel) pairs of native_functions.yaml have a definition
/// in an index. Overloads are counted separately: a pair counts once for each op that names it.
struct KernelCoverage {
  struct Missing {
    std::string_view op;  ///< Op name, a view into the index: `aten::add.out`.
    std::string key;
    std::string kernel;  ///< `at::native::add_out`
  };
  Share pairs;
  std::size_t by_registration = 0;  ///< Known pairs found through the registered function.
  std::vector<Missing> not_built;   ///< Missing, for devices that no Linux x86-64 wheel supports.
  std::vector<Missing> missing;     ///< All other missing pairs.
  Share available() const;          ///< Share of the pairs that a wheel can contain.
};
KernelCoverage kernel_coverage(const Index& index);

/// Counts how many functions of a wheel's library have a definition in an index, by class. Template
/// instances are left out; clones and cold parts are counted with their function.
struct LibraryCoverage {
  struct Class {
    std::string name;          ///< `at::native`, `bindings`
    Share functions;           ///< Known: defined, or compiler-generated in a defined class.
    std::size_t implicit = 0;  ///< Known members that the compiler made (destructors).
    std::vector<std::string> missing;  ///< Mangled names.
  };
  std::string library;  ///< File name.
  std::vector<Class> classes;
  Class lambdas;            ///< Lambdas in functions of all classes, which have no names to match.
  Share functions() const;  ///< Sum over all classes, without lambdas.
};

/// Counts the functions of one library.
class LibraryCounter {
 public:
  /// `library` is the file's name. `index` must outlive this.
  LibraryCounter(const Index& index, std::string library);

  /// Counts a function of the library's symbol table, if it belongs to a class and has not been
  /// counted before.
  void add(std::string_view mangled);

  /// Returns the counts, without classes that have no functions. To be called once, at the end.
  LibraryCoverage take();

 private:
  const Index& index_;
  LibraryCoverage coverage_;
  std::unordered_set<std::string> seen_;
};

}  // namespace optrace
