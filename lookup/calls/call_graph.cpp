#include "lookup/calls/call_graph.h"

#include "pytorch/functions/dispatcher_steps.h"

namespace optrace {

CallGraph::CallGraph(const SourceIndexes& index)
    : index_(index), fallbacks_(index.registrations_of("_")) {}

const DispatchTable& CallGraph::table(const std::string& op) {
  const auto found = tables_.find(op);
  if (found != tables_.end()) return found->second;
  return tables_.emplace(op, DispatchTable(index_.registrations_of(op), fallbacks_)).first->second;
}

std::string CallGraph::op_of(std::string_view symbol) const {
  const std::string_view name = dispatched_op(symbol);
  if (name.empty()) return {};
  const auto entry = index_.find_op(name);
  return entry ? std::string(entry->name) : std::string();
}

}  // namespace optrace
