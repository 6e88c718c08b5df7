#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tracer/trace/trace.h"

namespace optrace {

/// What of a trace says why the dispatcher chose the kernel that it chose: op records
/// (tracer/in_process/op_records/), raw DispatchKeySets and dispatch tables in, the keys of a
/// dispatcher frame's detail out, as docs/report-format.md has them. Everything that it reads is
/// hostile; what is no record, names no key or contradicts itself is left out.
class DispatchDetails {
 public:
  /// A dispatcher frame: at::_ops::add_Tensor::call or ::redispatch.
  struct Step {
    std::string_view op;  ///< `aten::add.Tensor`; may be empty for a call that has op records.
    bool redispatch = false;
    std::span<const OpTally> ops;              ///< TracePath::ops; of a call.
    std::span<const ArgumentTally> arguments;  ///< TracePath::arguments; of a redispatch.
    std::uint64_t ops_left_out = 0;            ///< TracePath::ops_left_out.
    /// A kernel was seen to be called without a stack. Dispatch tables don't tell for kernels that
    /// take a SymInt.
    bool unboxed = false;
    bool by_threads = false;  ///< Several threads took the path: which came first is chance.
  };

  /// The trace must outlive the object.
  explicit DispatchDetails(const Trace& trace);
  ~DispatchDetails();
  DispatchDetails(const DispatchDetails&) = delete;
  DispatchDetails& operator=(const DispatchDetails&) = delete;

  /// Adds to `detail`, an object or null, what is known of the step; nothing if nothing is.
  void add(nlohmann::json& detail, const Step& step) const;

  /// The name of an autograd node (`ConvolutionBackward0`), of which this is the op record; empty
  /// if it is none.
  std::string node_name(std::uint32_t record) const;

  /// The op (`aten::add.Tensor`), or the custom autograd function, of which a call has this op
  /// record; empty if it is none.
  std::string op_name(std::uint32_t record) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One short line for a tree: "AutogradCPU, of CPU, AutogradCPU; AutocastCPU falls through". Empty
/// if the detail says nothing of a choice.
std::string dispatch_note(const nlohmann::json& detail);

}  // namespace optrace
