#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/tensors/tensor_log.h"

namespace optrace {

/// A copy of data, with the call that the program made for it.
struct ReasonedCopy {
  TensorCopy copy;
  const LoggedCall* asked = nullptr;  ///< The outermost call.
  std::vector<std::string> through;   ///< The ops from `asked` to the copying one.
};

/// Returns all copies between storages, in the order of the program.
std::vector<ReasonedCopy> all_copies(const TensorLog& log);

/// A variable that refers to the same storage as another one.
struct SharedMemory {
  const LoggedVariable* variable = nullptr;
  bool same_tensor = false;  ///< Both refer to one tensor; otherwise, to views of one storage.
};

/// A call that made, returned or changed data that a variable's tensor has or was copied from.
struct HistoryStep {
  const LoggedCall* call = nullptr;  ///< An outermost call.
  std::vector<ReasonedCopy> copies;  ///< Made inside the call, to a storage of the history.
};

/// Where a variable's tensor is, and how it got there.
struct TensorHistory {
  const LoggedVariable* variable = nullptr;  ///< Its last tensor.
  bool at_end = false;                       ///< It still referred to it at the end.
  std::vector<SharedMemory> shared;          ///< When it last referred to it.
  /// The copy that filled its storage, if there is one, and the copies of it to other storages.
  std::vector<ReasonedCopy> copied_from, copied_to;
  std::vector<HistoryStep> steps;  ///< By time; the last ones if there are many.
  bool has_all_steps = true;
};

/// Returns the histories of the variables that have the name, all for an empty name: one for each
/// module or function that has one. The name may be a whole one (full_name), or what follows a dot
/// of it. Variables precede what they contain. With an empty name, a history has at most a hundred
/// steps.
std::vector<TensorHistory> histories_of(const TensorLog& log, std::string_view name);

/// Returns the full name of a variable: `x`, `f.x`, `f.self.fc1.weight`.
std::string full_name(const LoggedVariable& variable);

/// Returns the names of the variables that have referred to a storage, for each storage.
std::map<std::uint64_t, std::vector<std::string>> names_of_storages(const TensorLog& log);

}  // namespace optrace
