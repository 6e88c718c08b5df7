#include "tracer/calltree/call_tree_functions.h"

#include <algorithm>
#include <unordered_map>

namespace optrace {

TraceCallTreeFunctions::TraceCallTreeFunctions(const Trace& trace)
    : ops_(trace.op_records),
      identities_(trace.functions.size()),
      probed_(trace.functions.size()),
      enters_itself_(trace.functions.size()),
      evaluation_loop_(trace.functions.size()),
      agent_(trace.functions.size()),
      begins_threads_(trace.functions.size()),
      runs_nodes_(trace.functions.size()),
      jumps_indirectly_(trace.functions.size()),
      tail_calls_(trace.functions.size()) {
  // Owners of split-off parts are looked up by name. If local functions share a name, the source
  // file decides.
  std::unordered_map<std::string_view, std::vector<std::uint32_t>> by_symbol;
  bool has_parts = false;
  roles_.reserve(trace.functions.size());
  for (const TraceFunction& function : trace.functions) roles_.push_back(role_of(function.symbol));
  for (std::uint32_t i = 0; i < trace.functions.size(); ++i) {
    const TraceFunction& function = trace.functions[i];
    identities_[i] = i;
    has_parts = has_parts || without_cold_suffix(function.symbol) != function.symbol;
  }
  if (has_parts)
    for (std::uint32_t i = 0; i < trace.functions.size(); ++i)
      by_symbol[trace.functions[i].symbol].push_back(i);

  for (std::uint32_t i = 0; i < trace.functions.size(); ++i) {
    const TraceFunction& function = trace.functions[i];
    const std::string_view owner = without_cold_suffix(function.symbol);
    if (owner == function.symbol) continue;
    const auto found = by_symbol.find(owner);
    if (found == by_symbol.end()) continue;
    for (const std::uint32_t candidate : found->second) {
      const TraceFunction& other = trace.functions[candidate];
      if (other.module == function.module && other.source_file == function.source_file)
        identities_[i] = candidate;
    }
  }

  for (std::uint32_t i = 0; i < trace.functions.size(); ++i) {
    const TraceFunction& function = trace.functions[i];
    const std::uint32_t owner = identities_[i];
    const auto set = [&](std::vector<std::uint8_t>& flags, bool value) {
      if (value) flags[i] = flags[owner] = 1;
    };
    set(probed_, function.probed);
    set(enters_itself_, function.enters_itself);
    set(jumps_indirectly_, function.jumps_indirectly);
    const FunctionRole& role = roles_[i];
    set(evaluation_loop_, role.evaluation_loop);
    set(runs_nodes_, role.runs_nodes);
    const std::string_view path = function.module < trace.modules.size()
                                      ? std::string_view(trace.modules[function.module].path)
                                      : std::string_view();
    set(begins_threads_, optrace::begins_threads(function.symbol, path));
    set(agent_, is_own_library(path));
    for (const std::uint32_t target : function.tail_calls) {
      if (target >= identities_.size()) continue;
      tail_calls_[owner].push_back(identities_[target]);
    }
  }
  for (std::vector<std::uint32_t>& targets : tail_calls_) std::ranges::sort(targets);
}

OpStep TraceCallTreeFunctions::op_step(std::uint32_t function, std::uint32_t record) const {
  return step_of(roles_[function], op_name(record));
}

bool TraceCallTreeFunctions::jumps_directly(std::uint32_t from, std::uint32_t to) const {
  return std::ranges::binary_search(tail_calls_[from], to);
}

bool TraceCallTreeFunctions::can_jump(std::uint32_t from, std::uint32_t to) const {
  return jumps_indirectly_[from] != 0 || jumps_directly(from, to);
}

bool TraceCallTreeFunctions::jump_is_indirect(std::uint32_t from, std::uint32_t to) const {
  return jumps_indirectly_[from] != 0 && !jumps_directly(from, to);
}

}  // namespace optrace
