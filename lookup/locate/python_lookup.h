#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/locate/entry_locator.h"
#include "lookup/locate/locate_query.h"
#include "lookup/locate/located.h"
#include "lookup/locate/op_lookup.h"

namespace optrace {

/// Returns the ops that a generated binding calls: `aten::matmul` for
/// `torch::autograd::THPVariable_matmul`. Empty for other functions.
std::string bound_packet(std::string_view binding);

/// Finds names of PyTorch's Python API: modules, classes, functions, and builtins with their
/// bindings. Resolves aliases and inherited methods.
class PythonLookup {
 public:
  /// Both arguments must outlive this.
  PythonLookup(const EntryLocator& entries, OpLookup& ops) : entries_(entries), ops_(ops) {}

  /// Finds the objects with one of the query's spellings, or else, for a name that need not be
  /// complete, those whose names end with it. `with_ops` adds the ops of a binding to its parts. It
  /// is false if these are answers of their own.
  void find(const NameQuery& query, bool with_ops, AnswerList& answers);

  /// Returns the object with that full name, with aliases resolved.
  std::optional<PythonName> find_name(const std::string& name) const { return find_name(name, 0); }

  /// Returns the objects with that spelling. `torch.nn.utils.weight_norm` is a module, and also the
  /// function in it that the package imports under the same name.
  std::vector<PythonName> names_of(const std::string& spelling) const;

  /// Returns all names. Reads them at the first call.
  const std::vector<PythonName>& all();

 private:
  std::optional<PythonName> find_name(const std::string& name, std::size_t depth) const;
  std::optional<PythonName> inherited(const PythonName& of, const std::string& attribute,
                                      std::size_t depth) const;
  std::vector<PythonName> names_ending_with(const NameQuery& query);
  Located binding(const PythonName& name) const;
  Located located(const PythonName& name, bool with_ops);
  void add_ops(Located& answer);

  const EntryLocator& entries_;
  OpLookup& ops_;
  std::optional<std::vector<PythonName>> all_;
};

}  // namespace optrace
