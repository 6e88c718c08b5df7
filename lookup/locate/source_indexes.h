#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// The index of a torch and the indexes of extensions for it, searched as one: an extension's ops
/// consist of its own functions and of PyTorch's.
class SourceIndexes {
 public:
  /// The indexes must outlive the object.
  explicit SourceIndexes(const Index& torch) : all_{&torch} {}
  SourceIndexes(const Index& torch, const std::vector<Index>& extensions);

  const Index& torch() const { return *all_.front(); }

  std::vector<OpEntry> ops() const;
  /// Returns the declarations and kernels of ops in extensions, by name, including those of ops for
  /// which an index has no OpEntry.
  std::vector<Registration> extension_registrations() const;
  std::optional<OpEntry> find_op(std::string_view unambiguous_name) const;
  /// Returns empty facts if no index has the op.
  OpFacts facts_of(const OpEntry& op) const;
  std::vector<Registration> registrations_of(std::string_view name) const;
  std::optional<PythonName> find_python_name(std::string_view name) const;

  // These search torch's index first, and return the result of the first index with the symbol.
  std::optional<Definition> find_definition(std::string_view symbol,
                                            std::string_view source_file = {}) const;
  std::optional<ResultType> result_type_of(std::string_view symbol,
                                           std::string_view source_file = {}) const;
  std::vector<CallSite> calls_of(std::string_view symbol, std::string_view source_file = {}) const;

 private:
  std::vector<const Index*> all_;
};

}  // namespace optrace
