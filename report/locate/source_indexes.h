#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// The index of a torch and those of the extensions for it, asked as one: an extension's ops are
/// made of its own functions and of PyTorch's.
class SourceIndexes {
 public:
  /// Both must outlive the object.
  explicit SourceIndexes(const Index& torch) : all_{&torch} {}
  SourceIndexes(const Index& torch, const std::vector<Index>& extensions);

  const Index& torch() const { return *all_.front(); }

  std::vector<OpEntry> ops() const;
  /// The ops that are declared or given kernels by extensions, by name, whether an index has them
  /// as an OpEntry or not.
  std::vector<Registration> extension_registrations() const;
  std::optional<OpEntry> find_op(std::string_view unambiguous_name) const;
  /// Nothing known where the entry is of another index.
  OpFacts facts_of(const OpEntry& op) const;
  std::vector<Registration> registrations_of(std::string_view name) const;
  std::optional<PythonName> find_python_name(std::string_view name) const;

  // Of the first index that knows the symbol, torch's first.
  std::optional<Definition> find_definition(std::string_view symbol,
                                            std::string_view source_file = {}) const;
  std::vector<CallSite> calls_of(std::string_view symbol, std::string_view source_file = {}) const;

 private:
  std::vector<const Index*> all_;
};

}  // namespace optrace
