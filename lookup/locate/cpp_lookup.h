#pragma once

#include <optional>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/locate/entry_locator.h"
#include "lookup/locate/locate_query.h"
#include "lookup/locate/located.h"

namespace optrace {

/// Finds C++ names in indexes: functions, classes, stubs and device kernels by their name or
/// symbol, and functions of other libraries by their callers.
class CppLookup {
 public:
  /// `entries` must outlive this.
  explicit CppLookup(const EntryLocator& entries) : entries_(entries) {}

  /// Finds the definitions whose names fit the query best, as long as their parameters fit too.
  void find(const NameQuery& query, AnswerList& answers) const;

  /// Finds functions of classes that are called but nowhere defined: pure virtual ones. The class
  /// is a part of the answer.
  void find_pure(const NameQuery& query, AnswerList& answers) const;

  /// Finds the class of a member that the compiler generates and that is therefore in no source: a
  /// constructor, a destructor, an assignment, a virtual table, type information. The member is a
  /// part of the answer. A thunk leads to its function.
  void find_class_of(const NameQuery& query, AnswerList& answers) const;

  /// Finds the function of a mangled name, the function that a lambda is in, or the callers.
  void find_mangled(const NameQuery& query, AnswerList& answers) const;

  /// Finds functions that PyTorch calls but does not define: those of cuDNN, MKL, the C library.
  void find_foreign(const std::string& symbol, AnswerList& answers) const;

  /// Returns the best definition of a function with that qualified name in PyTorch's index.
  std::optional<Definition> function_called(const std::string& qualified) const;

  /// Returns the name of the best definition in PyTorch's index whose last components are these;
  /// empty if there is none.
  std::string name_ending_with(const std::vector<std::string>& components) const;

 private:
  void add(const Index& owner, const Definition& definition, AnswerList& answers) const;
  void add_parts(const Index& owner, Located& answer, bool all) const;

  const EntryLocator& entries_;
};

}  // namespace optrace
