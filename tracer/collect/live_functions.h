#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <vector>

#include "platform/elf/function_jumps.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/functions/runtime_libraries.h"
#include "tracer/calltree/path_functions.h"
#include "tracer/collect/function_table.h"
#include "tracer/collect/tail_calls.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The properties of functions of a running program, determined as they occur. All objects that are
/// passed to the constructor must outlive this one. With `all_have_paths`, every function is
/// counted.
class LiveFunctions : public PathFunctions {
 public:
  LiveFunctions(const Trace& trace, const FunctionTable& table, const RecordedTexts& texts,
                bool all_have_paths)
      : trace_(trace),
        table_(table),
        texts_(texts),
        all_have_paths_(all_have_paths),
        ops_(texts.op_records) {}

  std::uint32_t identity(std::uint32_t function) const override { return function; }
  bool probed(std::uint32_t function) const override { return trace_.functions[function].probed; }
  bool enters_itself(std::uint32_t function) const override;
  bool is_evaluation_loop(std::uint32_t function) const override {
    return role(function).evaluation_loop;
  }
  bool is_agent(std::uint32_t function) const override;
  bool is_uncounted(std::uint32_t function) const override {
    if (all_have_paths_) return false;
    const std::uint32_t module = trace_.functions[function].module;
    while (uncounted_.size() < trace_.modules.size())
      uncounted_.push_back(!has_counted_calls(trace_.modules[uncounted_.size()].path));
    return module != kNone && uncounted_[module];
  }
  bool begins_threads(std::uint32_t function) const override;
  bool runs_nodes(std::uint32_t function) const override { return role(function).runs_nodes; }
  bool can_jump(std::uint32_t from, std::uint32_t to) const override;
  bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const override {
    return jumps(from).jumps_indirectly && !jumps_directly(from, to);
  }
  bool calls_by_name(const Event& entry, std::uint32_t called) const override;
  const FunctionRole& role(std::uint32_t function) const override {
    // Symbols stay in the mapped files, even when the trace's copies are gone.
    while (roles_.size() <= function)
      roles_.push_back(
          role_of(table_.located(static_cast<std::uint32_t>(roles_.size())).function.symbol));
    return roles_[function];
  }
  std::uint32_t call_offset(const Event& entry, std::uint32_t caller) const override {
    return call_offset_of(trace_, entry, caller);
  }
  std::string_view python_name(std::uint32_t function) const override;
  OpStep op_step(std::uint32_t function, std::uint32_t record) const override {
    return step_of(role(function), op_name(record));
  }
  std::uint32_t op_of(std::uint32_t record) const override { return ops_.at(record).first; }
  std::string_view op_name(std::uint32_t record) const override { return ops_.at(record).name; }

 private:
  const FunctionJumps& jumps(std::uint32_t function) const;

  bool jumps_directly(std::uint32_t from, std::uint32_t to) const;

  const NamedFunctions& names(std::uint32_t function) const;

  const Trace& trace_;
  const FunctionTable& table_;
  const RecordedTexts& texts_;
  const bool all_have_paths_;
  mutable std::map<std::uint32_t, FunctionJumps> jumps_;
  mutable std::deque<FunctionRole> roles_;
  mutable std::vector<bool> uncounted_;  // By module.
  mutable OpNames ops_;
  mutable NamedFunctions names_;
  mutable std::size_t named_ = 0;
};

}  // namespace optrace
