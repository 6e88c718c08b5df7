#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/model/detail.h"
#include "tracer/trace/op_record.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Explains why the dispatcher chose a kernel. The input is a trace's op records, raw
/// DispatchKeySets and dispatch tables; the output is the detail of a dispatcher frame. All input
/// is untrusted; unknown keys and contradictions are skipped.
class DispatchDetails {
 public:
  /// A dispatcher frame: at::_ops::add_Tensor::call or ::redispatch.
  struct Step {
    std::string_view op;  ///< `aten::add.Tensor`; may be empty for a call that has op records.
    bool redispatch = false;
    bool boxed = false;  ///< A method of the op's handle, which is then the first argument.
    std::span<const OpCallCount> ops;          ///< TracePath::ops; only for a call.
    std::span<const ArgumentCount> arguments;  ///< TracePath::arguments; only for a redispatch.
    std::uint64_t ops_left_out = 0;            ///< TracePath::ops_left_out.
    /// A kernel was seen to be called unboxed. For kernels that take a SymInt, dispatch tables
    /// don't contain this information.
    bool unboxed = false;
    bool by_threads = false;  ///< Several threads took the path, so its order is random.
  };

  /// The trace and its records must outlive the object.
  DispatchDetails(const Trace& trace, const OpRecords& records);
  ~DispatchDetails();
  DispatchDetails(const DispatchDetails&) = delete;
  DispatchDetails& operator=(const DispatchDetails&) = delete;

  /// Returns what is known of the step. The lines of TorchScript that made its calls are added to
  /// `origins`.
  DispatchDetail of(const Step& step, std::vector<Origin>& origins) const;

  /// Returns the detail of a redispatch by which a kernel handed the op on to the keys after its
  /// own, as boxed fallbacks do. `from` is the step to that kernel.
  DispatchDetail handed_on(std::string_view op, const DispatchDetail& from) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One short line for a tree: "→ AutogradCPU (of AutogradCPU, CPU; skips AutocastCPU)". Empty if
/// the dispatch key is unknown.
std::string dispatch_note(const DispatchDetail& dispatch);

}  // namespace optrace
