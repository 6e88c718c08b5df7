#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pytorch/functions/function_roles.h"
#include "tracer/trace/op_names.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The properties of functions and op records that the rules of the call tree depend on. Functions
/// are identified by their index.
class CallTreeFunctions {
 public:
  CallTreeFunctions() = default;
  virtual ~CallTreeFunctions() = default;
  CallTreeFunctions(const CallTreeFunctions&) = delete;
  CallTreeFunctions& operator=(const CallTreeFunctions&) = delete;

  /// Returns the function itself; for a part that GCC split off (`f.cold`), the function `f`, which
  /// has the entry.
  virtual std::uint32_t identity(std::uint32_t function) const = 0;

  // The other members take identities.
  virtual bool probed(std::uint32_t function) const = 0;
  virtual bool enters_itself(std::uint32_t function) const = 0;
  /// CPython's evaluation loop, whose frame stands for Python frames.
  virtual bool is_evaluation_loop(std::uint32_t function) const = 0;
  /// A function of optrace's own, which runs in the traced process without being probed.
  virtual bool is_agent(std::uint32_t function) const = 0;
  /// Threads begin in this function. Its frame is outermost and has no other meaning.
  virtual bool begins_threads(std::uint32_t function) const = 0;
  /// The function of autograd's engine that runs a node. The node's ops and kernels belong under
  /// it.
  virtual bool runs_nodes(std::uint32_t function) const = 0;
  /// Returns the function's role in a call of the op that has this record.
  virtual OpStep op_step(std::uint32_t function, std::uint32_t record) const = 0;
  /// Returns the first record of the same op; kNone for a record that has a name but no schema.
  virtual std::uint32_t op_of(std::uint32_t record) const = 0;
  /// True if the code of `from` (including its split-off parts) can jump to the entry of `to`.
  virtual bool can_jump(std::uint32_t from, std::uint32_t to) const = 0;
  /// True if only an indirect jump, whose target the code does not show, leads from `from` to `to`.
  virtual bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const = 0;
  /// True if the call instruction before `entry`'s return address names `called`. Any other
  /// function that is entered with that return address was then reached by a tail call.
  virtual bool calls_by_name(const Event& entry, std::uint32_t called) const = 0;
};

/// The functions of a trace, which must outlive it.
class TraceCallTreeFunctions : public CallTreeFunctions {
 public:
  explicit TraceCallTreeFunctions(const Trace& trace);

  std::uint32_t identity(std::uint32_t function) const override { return identities_[function]; }
  bool probed(std::uint32_t function) const override { return probed_[function] != 0; }
  bool enters_itself(std::uint32_t function) const override {
    return enters_itself_[function] != 0;
  }
  bool is_evaluation_loop(std::uint32_t function) const override {
    return evaluation_loop_[function] != 0;
  }
  bool is_agent(std::uint32_t function) const override { return agent_[function] != 0; }
  bool begins_threads(std::uint32_t function) const override {
    return begins_threads_[function] != 0;
  }
  bool runs_nodes(std::uint32_t function) const override { return runs_nodes_[function] != 0; }
  OpStep op_step(std::uint32_t function, std::uint32_t record) const override;
  std::uint32_t op_of(std::uint32_t record) const override { return ops_.at(record).first; }
  std::string_view op_name(std::uint32_t record) const { return ops_.at(record).name; }
  const FunctionRole& role(std::uint32_t function) const { return roles_[function]; }
  bool can_jump(std::uint32_t from, std::uint32_t to) const override;
  bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const override;
  /// Always false: a trace lists such jumps among its functions' tail calls.
  bool calls_by_name(const Event&, std::uint32_t) const override { return false; }

 private:
  bool jumps_directly(std::uint32_t from, std::uint32_t to) const;

  mutable OpNames ops_;
  std::vector<FunctionRole> roles_;  // Views into the trace's symbols.
  std::vector<std::uint32_t> identities_;
  std::vector<std::uint8_t> probed_;
  std::vector<std::uint8_t> enters_itself_;
  std::vector<std::uint8_t> evaluation_loop_;
  std::vector<std::uint8_t> agent_;
  std::vector<std::uint8_t> begins_threads_;
  std::vector<std::uint8_t> runs_nodes_;
  std::vector<std::uint8_t> jumps_indirectly_;
  std::vector<std::vector<std::uint32_t>> tail_calls_;  // Sorted.
};

}  // namespace optrace
