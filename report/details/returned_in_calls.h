#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pytorch/libraries/backend_name.h"
#include "report/model/report.h"

namespace optrace {

/// What the functions below the calls of an op returned, in a report.
class ReturnedInCalls {
 public:
  /// `op`: `aten::conv2d`.
  ReturnedInCalls(const Report& report, std::string_view op);

  /// Returns the number of the op's calls in the report.
  std::size_t calls() const { return calls_; }

  /// Returns what the calls of a function by another one returned; what all its calls did if the
  /// caller has no frame, as when it was inlined; null if nothing is known.
  /// Symbols are canonical, or the key of a template's instances.
  const ReturnedValues* of(std::string_view symbol, std::string_view caller) const;

  /// Returns what PyTorch says about a backend of attention: `refused by check_tensor_dtype ...`.
  std::vector<std::string> attention_lines_of(const BackendName& backend) const;

 private:
  void add(const Frame& frame, const std::string& caller);

  std::size_t calls_ = 0;
  // By function_key() of the function and of its caller, which is empty for all callers.
  std::map<std::pair<std::string, std::string>, ReturnedValues> returned_;
  std::set<std::string> functions_;  // With a frame, by function_key().
  std::vector<std::string> attention_;
};

}  // namespace optrace
