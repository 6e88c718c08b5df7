#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tracer/calltree/call_tree_functions.h"
#include "tracer/calltree/call_tree_rules.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The call tree of one thread of a timeline, with one node per call.
class CallTree {
 public:
  struct Node : CallTreeRules::Node {
    std::uint32_t index = 0;  ///< Index of the event; for initial, of the initial frame.
  };

  /// Throws Error(usage) if an event names a function that the trace does not have.
  CallTree(const Trace& trace, const CallTreeFunctions& functions, const ThreadRecord& thread);

  /// Parents come before their children.
  std::span<const Node> nodes() const { return nodes_; }
  const CallTreeStatistics& statistics() const { return statistics_; }

  /// Returns the node that an event created; for a self entry, the node of the entry that it
  /// repeats. kNone for events that enter nothing.
  std::uint32_t node_of_event(std::size_t event) const { return node_of_event_[event]; }

  /// Returns the event that entered the caller of this function_entry; for a self entry, that of
  /// the first entry's caller. kNone for a root, and if the caller is a frame of the initial stack
  /// (node_of_event and Node::parent distinguish these).
  std::uint32_t parent_event(std::size_t event) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> node_of_event_;
  CallTreeStatistics statistics_;
};

/// Throws Error(usage) if the event refers to something that the trace does not have. `index` and
/// `thread` are for the message.
void check_event(const Trace& trace, const Event& event, std::size_t index, std::uint64_t thread);

}  // namespace optrace
