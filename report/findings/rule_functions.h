#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "report/findings/finding_rules.h"
#include "report/findings/op_tensors.h"
#include "report/model/op_call.h"

namespace optrace {

using Found = std::optional<RuleMatch>;

// The rules; finding_rules.cpp has their table. copy_rules.cpp:
Found implicit_copy(const FrameInContext& at);
Found host_wait(const FrameInContext& at);
Found layout_copy(const FrameInContext& at);
Found repeated_cast(const FrameInContext& at);

// kernel_rules.cpp:
Found slow_kernel(const FrameInContext& at);
Found tiny_ops(const FrameInContext& at);
Found launch_bound(const FrameInContext& at);
Found repeated_op(const FrameInContext& at);
Found for_loop_optimizer(const FrameInContext& at);

// program_rules.cpp:
Found graph_break(const FrameInContext& at);
Found recompile(const FrameInContext& at);
Found unused_graph(const FrameInContext& at);
Found unread_gradient(const FrameInContext& at);
Found idle_worker(const FrameInContext& at);

/// Returns the calls for which describe() returns a text, with the text of the first of them.
template <class Describe>
Found describe_calls(const Frame& frame, const Describe& describe) {
  Found found;
  for (const OpCalls& calls : op_calls(frame)) {
    std::string what = describe(calls);
    if (what.empty()) continue;
    if (!found) found = RuleMatch{std::move(what), 0};
    found->calls += calls.calls;
    found->devices[device_of(calls)] += static_cast<double>(calls.calls);
  }
  return found;
}

}  // namespace optrace
