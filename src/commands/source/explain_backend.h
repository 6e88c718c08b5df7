#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lookup/locate/source_indexes.h"
#include "lookup/why_not/why_not.h"
#include "lookup/why_not/why_not_output.h"

namespace optrace {

/// What `optrace explain OP --why-not BACKEND` is asked for.
struct BackendQuestion {
  std::string op;  ///< `aten::conv2d`
  std::string backend;
  std::string call;  ///< A trace, a report or a command (command_input.h), or empty.
  std::vector<std::string> devices;  ///< Devices to explain; empty: that of the call, or all.
  bool all = false;
};

/// The predicates between the op and the backend, and the call whose results are known.
struct BackendAnswer {
  WhyNot why_not;
  std::optional<ObservedCall> call;
};

/// Answers from the index, and from the call if there is one. Throws Error(usage) if the index has
/// no types of results, if the op can't reach the backend, or if the input has no call of the op,
/// and the exceptions of tracing.
BackendAnswer answer_why_not(const SourceIndexes& index, const BackendQuestion& question);

}  // namespace optrace
