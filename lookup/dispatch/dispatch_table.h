#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// The reason why the dispatcher has a certain kernel for a dispatch key. These are the cases of
/// OperatorEntry::computeDispatchTableEntryWithDebug
/// (aten/src/ATen/core/dispatch/OperatorEntry.cpp), in the order in which they are tried.
enum class DispatchReason : std::uint8_t {
  direct,                   ///< Registered for that key.
  explicit_non_functional,  ///< Registered for CompositeExplicitAutogradNonFunctional.
  explicit_autograd,        ///< Registered for CompositeExplicitAutograd.
  nested_tensor,            ///< Registered for CompositeImplicitAutogradNestedTensor.
  implicit_autograd,        ///< Registered for CompositeImplicitAutograd.
  ambiguous_other,          ///< AutogradOther, if its backends would each need their own kernel.
  autograd,                 ///< Registered for Autograd.
  batched_decomposition,    ///< Registered for FuncTorchBatchedDecomposition.
  fallback,                 ///< The key's fallback for all ops.
  missing,                  ///< No kernel: calling the op with that key is an error.
};

/// Returns the term of `torch._C._dispatch_dump_table`: `kernel`, `math kernel`, `backend
/// fallback`, ...
std::string_view dispatcher_name(DispatchReason reason);

/// Returns the alias key of a reason; empty if it has none.
std::string_view alias_key(DispatchReason reason);

/// An op's entry for one dispatch key.
struct DispatchEntry {
  std::string_view key;
  DispatchReason reason = DispatchReason::missing;
  std::optional<Registration> registration;  ///< Empty if the kernel is missing or ambiguous.
  /// Returns true if the dispatcher goes on to the next key.
  bool falls_through() const {
    return registration && registration->kind == RegistrationKind::fallthrough;
  }
};

/// An op's dispatch table, computed from the registrations in the source. Registrations from Python
/// at run time (the decompositions for Meta in torch/_meta_registrations.py) are not included.
class DispatchTable {
 public:
  /// `registrations` are the op's (Index::registrations_of its name), `fallbacks` those of `_`. If
  /// several are registered for one key, for example by two builds, the first by file and line is
  /// used. The text behind the views must outlive the table.
  DispatchTable(const std::vector<Registration>& registrations,
                const std::vector<Registration>& fallbacks);

  /// Returns the entry for a runtime key such as `CPU` or `AutogradCUDA`.
  DispatchEntry entry(std::string_view key) const;

  /// Returns the entries of all runtime keys, in the dispatcher's order, followed by those of
  /// registered keys that are unknown.
  std::vector<DispatchEntry> entries() const;

  /// Returns the op's declaration (`m.def`), if it is known.
  const std::optional<Registration>& declaration() const { return declaration_; }

  /// Returns the op's own kernels, including those of alias keys, by key.
  const std::map<std::string_view, std::vector<Registration>>& kernels() const { return kernels_; }

 private:
  const Registration* registered(std::string_view key) const;

  std::map<std::string_view, std::vector<Registration>> kernels_;
  std::map<std::string_view, Registration> fallbacks_;
  std::optional<Registration> declaration_;
};

}  // namespace optrace
