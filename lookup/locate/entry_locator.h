#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/locate/located.h"

namespace optrace {

/// Makes answers of the entries of indexes: the name of an entry, its place in the source, and the
/// URL of that place.
class EntryLocator {
 public:
  /// `pytorch` is PyTorch's index, `extensions` are those of extensions. They must outlive this.
  EntryLocator(const Index& pytorch, std::vector<const Index*> extensions);

  const Index& pytorch() const { return pytorch_; }

  /// Calls `visit` for each index, PyTorch's first.
  template <typename Visit>
  void each_index(Visit visit) const {
    visit(pytorch_);
    for (const Index* const extension : extensions_) visit(*extension);
  }

  /// Sets the file, line and URL of `located` to a location in C++, yaml or generated code.
  void place(Located& located, const Index& owner, const SourceLocation& location) const;

  /// Same for a location in PyTorch's Python code.
  void place_python(Located& located, const SourceLocation& location) const;

  Located located(const Index& owner, const Definition& definition) const;

  /// Returns a function that no index defines: one that a class of PyTorch declares (pure virtual),
  /// or one of another library.
  Located undefined(std::string_view symbol) const;

  /// Returns the class that has a function as its member, if an index has it.
  std::optional<Located> class_of(std::string_view symbol) const;

  /// Returns the function of a registration as a kernel, or the registration's own place if no
  /// index has the function.
  Located registered(const Index& owner, const Registration& registration) const;

  /// Returns the functions that call or launch `symbol`, each at the line of its call. At most 8,
  /// unless `all`.
  std::vector<Located> callers(const Index& owner, std::string_view symbol, std::string_view role,
                               bool all) const;

 private:
  const Index& pytorch_;
  std::vector<const Index*> extensions_;
};

/// Returns `at::native::foo` for a symbol, and `at::native::foo::{lambda}` for a lambda's key.
std::string shown_name(std::string_view symbol);

}  // namespace optrace
