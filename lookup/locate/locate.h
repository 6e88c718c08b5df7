#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/locate/located.h"
#include "lookup/locate/wheel_symbols.h"

namespace optrace {

/// Looks up names in an index. Caches what it reads of all names, so use one Locator for many
/// look-ups.
class Locator {
 public:
  /// `index` is PyTorch's, `projects` are those of extensions; they must outlive this. `wheel` may
  /// be null; it is searched for names that are in no index.
  explicit Locator(const Index& index, std::vector<const Index*> projects = {},
                   const WheelSymbols* wheel = nullptr);
  ~Locator();
  Locator(const Locator&) = delete;
  Locator& operator=(const Locator&) = delete;

  /// Throws Error(usage) if the name is invalid (parse_name) or the index is corrupt.
  LocateResult locate(std::string_view name, const LocateOptions& options = {});

  /// Returns the PyTorch objects with that Python name, with aliases resolved: one object, or a
  /// module and the function of the same name that hides it. `torch.` may be left out.
  std::vector<PythonName> python_names(std::string_view name) const;

  /// Returns true if PyTorch has an object with that Python name, as in `from torch import nn`.
  bool knows_python_name(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace
