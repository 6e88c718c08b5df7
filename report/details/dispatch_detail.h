#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/model/detail.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Explains why the dispatcher chose a kernel. The input is a trace's op records
/// (target/op_recorder/), raw DispatchKeySets and dispatch tables; the output is the
/// detail of a dispatcher frame. All input is untrusted; invalid
/// records, unknown keys and contradictions are skipped.
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

  /// The trace must outlive the object.
  explicit DispatchDetails(const Trace& trace);
  ~DispatchDetails();
  DispatchDetails(const DispatchDetails&) = delete;
  DispatchDetails& operator=(const DispatchDetails&) = delete;

  /// Returns what is known of the step. The lines of TorchScript that made its calls are added to
  /// `origins`.
  DispatchDetail of(const Step& step, std::vector<Origin>& origins) const;

  /// Returns the detail of a redispatch by which a kernel handed the op on to the keys after its
  /// own, as boxed fallbacks do. `from` is the step to that kernel.
  DispatchDetail handed_on(std::string_view op, const DispatchDetail& from) const;

  /// Returns the arguments and the results that an op record has by itself.
  DispatchDetail recorded(std::uint32_t record) const;

  /// Returns the name of the autograd node (`ConvolutionBackward0`) that this op record describes,
  /// or an empty string if it describes none.
  std::string node_name(std::uint32_t record) const;

  /// Returns the op (`aten::add.Tensor`) or custom autograd function whose call this op record
  /// describes, or an empty string if it describes none.
  std::string op_name(std::uint32_t record) const;

  /// Returns the DispatchKeySet among the first two arguments of a redispatch, if only one of them
  /// can be one.
  std::optional<std::uint64_t> only_key_set(const ArgumentCount& counted) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One short line for a tree: "→ AutogradCPU (of AutogradCPU, CPU; skips AutocastCPU)". Empty if
/// the dispatch key is unknown.
std::string dispatch_note(const DispatchDetail& dispatch);

}  // namespace optrace
