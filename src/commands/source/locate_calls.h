#pragma once

#include <cstddef>

#include "lookup/locate/located.h"
#include "src/inputs/selected_index.h"

namespace optrace {

/// The calls that `optrace locate` adds to its answers.
struct LocateCalls {
  bool callers = false;
  bool callees = false;
  std::size_t depth = 1;  ///< Of callers and callees.
  bool all = false;       ///< Of the calls that are left out otherwise.
};

/// Adds calls to the parts of the answers: to the first one that is written in Python those through
/// which it leaves Python, and to those in C++ the requested ones. Throws Error(usage) if callers
/// or callees are requested and no answer has any.
void add_calls(const SelectedIndex& choice, const LocateCalls& calls, LocateResult& result);

}  // namespace optrace
