#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// Why the dispatcher has that kernel for a dispatch key: the cases of
/// OperatorEntry::computeDispatchTableEntryWithDebug
/// (aten/src/ATen/core/dispatch/OperatorEntry.cpp), in the order in which they are tried.
enum class DispatchReason : std::uint8_t {
  direct,                   ///< Registered for that key.
  explicit_non_functional,  ///< For CompositeExplicitAutogradNonFunctional.
  explicit_autograd,        ///< For CompositeExplicitAutograd.
  nested_tensor,            ///< For CompositeImplicitAutogradNestedTensor.
  implicit_autograd,        ///< For CompositeImplicitAutograd.
  ambiguous_other,        ///< AutogradOther, for which several backends would each need their own.
  autograd,               ///< For Autograd.
  batched_decomposition,  ///< For FuncTorchBatchedDecomposition.
  fallback,               ///< The key's fallback for all ops.
  missing,                ///< None: calling the op with that key is an error.
};

/// As `torch._C._dispatch_dump_table` calls it: `kernel`, `math kernel`, `backend fallback`, ...
std::string_view dispatcher_name(DispatchReason reason);

/// The alias key that a reason stands for; empty for the others.
std::string_view alias_key(DispatchReason reason);

/// What the dispatcher does with an op for one dispatch key.
struct DispatchEntry {
  std::string_view key;
  DispatchReason reason = DispatchReason::missing;
  std::optional<Registration> registration;  ///< Nothing where the kernel is missing or ambiguous.
  /// True where the dispatcher goes on to the next key.
  bool falls_through() const {
    return registration && registration->kind == RegistrationKind::fallthrough;
  }
};

/// An op's dispatch table, computed from what the source registers. What Python registers at run
/// time (the decompositions for Meta in torch/_meta_registrations.py) is not in it.
class DispatchTable {
 public:
  /// `registrations` are the op's (Index::registrations_of its name), `fallbacks` those of `_`.
  /// Where several are registered for one key, as for two builds, the first by file and line
  /// stands; the text behind the views must outlive the table.
  DispatchTable(const std::vector<Registration>& registrations,
                const std::vector<Registration>& fallbacks);

  /// The entry for a runtime key such as `CPU` or `AutogradCUDA`.
  DispatchEntry entry(std::string_view key) const;

  /// All runtime keys, in the dispatcher's order, and behind them registered ones that it does not
  /// know.
  std::vector<DispatchEntry> entries() const;

  /// Where the op is declared (`m.def`), if that is known.
  const std::optional<Registration>& declaration() const { return declaration_; }

  /// What is registered for the op itself, alias keys included, by key.
  const std::map<std::string_view, std::vector<Registration>>& kernels() const { return kernels_; }

 private:
  const Registration* registered(std::string_view key) const;

  std::map<std::string_view, std::vector<Registration>> kernels_;
  std::map<std::string_view, Registration> fallbacks_;
  std::optional<Registration> declaration_;
};

/// The runtime dispatch keys, in the dispatcher's order (c10/core/DispatchKey.h); later ones come
/// before earlier ones when an op is called.
const std::vector<std::string>& runtime_dispatch_keys();

}  // namespace optrace
