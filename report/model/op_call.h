#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/model/frame.h"

namespace optrace {

/// Returns true for a dispatcher frame that calls an op, false for a redispatch.
bool is_op_call(const Frame& frame);

/// Returns true for a frame that calls this op.
bool is_call_of(const Frame& frame, std::string_view op);

/// One kind of calls of a dispatcher frame: those with the same arguments. It refers to the frame's
/// detail.
struct OpCalls {
  std::uint64_t calls = 0;
  const std::optional<std::vector<Argument>>& arguments;  ///< See CallVariant.
  const std::string& dispatch_key;                        ///< Empty if unknown.
};

/// Returns the calls of a frame that do more than ask for the size of a workspace.
std::uint64_t calls_with_work(const Frame& frame);

/// Returns every kind of calls of a dispatcher frame, in the order of the first of each. None for
/// other frames.
std::vector<OpCalls> op_calls(const Frame& frame);

/// Returns the tensors among arguments, also those in lists.
std::vector<const TensorFacts*> tensors_in(const std::vector<Argument>& arguments);

/// Same, for the arguments of calls; none without op records.
std::vector<const TensorFacts*> tensors_in(const OpCalls& calls);

/// Returns the tensor that a value is, or those of a list.
std::vector<const TensorFacts*> tensors_in(const Value& value);

/// Adds to the sums of the same devices.
void add_new_tensors(const std::vector<NewTensors>& more, std::vector<NewTensors>& sums);

/// Adds those of the results of `calls` calls that are in memory of their own.
void add_new_tensors(const std::vector<ResultOrList>& results, std::uint64_t calls,
                     std::vector<NewTensors>& sums);

/// Returns the results of a call. Those of a list are listed one by one.
std::vector<const Result*> results_in(const std::vector<ResultOrList>& results);

/// Returns the results of the most frequent kind of calls, as results_in() does. None without op
/// records.
std::vector<const Result*> results_of(const DispatchDetail& call);

}  // namespace optrace
