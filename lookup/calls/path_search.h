#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/calls/call_graph.h"
#include "lookup/calls/op_words.h"
#include "lookup/calls/static_path.h"

namespace optrace {

/// The ops that a search passes over because they only create, copy or inspect tensors.
enum class Housekeeping : std::uint8_t {
  skipped,   ///< None is followed, unless the op itself is one.
  followed,  ///< All but those that allocate or test tensors are followed.
};

/// A search with Dijkstra's algorithm over the functions and ops that one op can lead to on one
/// device. Ends are library calls, device kernels, and kernels of stubs.
class PathSearch {
 public:
  /// `graph` and `key`, the device's dispatch key, must outlive this.
  PathSearch(CallGraph& graph, std::string_view op, std::string_view key,
             Housekeeping housekeeping);

  /// Searches until nothing is left or StaticPaths::kMaxVisited is reached. To be called once.
  void run();

  /// Returns true if the search has found an end.
  bool has_ends() const { return !ends_.empty(); }

  /// Returns true if another search that follows housekeeping ops might find more: if this one
  /// skipped them, has no end, and reached no kernel that may contain a loop of its own.
  bool may_have_skipped_ends() const;

  /// Returns a path to each end, the cheapest first, then one to each related op below which
  /// nothing was reached. Run the search before.
  std::vector<StaticPath> paths() const;

 private:
  struct Node {
    StepKind kind;
    std::string symbol;       ///< The symbol, or the op's name.
    std::string source_file;  ///< File of the caller; distinguishes functions with one symbol.
    std::string note;         ///< See PathStep::note.
    std::size_t parent;       ///< Index of the caller's node; kNone for the op itself.
    SourceLocation call;      ///< Of the call in the parent; without a line for the op itself.
    unsigned cost;
    unsigned detours = 0;
    unsigned variants = 0;
    std::string_view file = {};  ///< File of the definition; set on the visit.
    bool leads = false;          ///< Leads to an end.
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// The role of a callee in a search, the same at each of its call sites.
  struct Callee {
    bool followed = false;
    StepKind kind = StepKind::function;
    std::string op;  ///< The op, if it calls one.
    unsigned variant_cost = 0;
  };

  /// A call that is followed, before it becomes a node.
  struct Call {
    StepKind kind = StepKind::function;
    std::string_view name;  ///< The symbol, or the op's name.
    unsigned cost = 0;
    unsigned detours = 0;
    unsigned variants = 0;
  };

  void add(Node node);
  void visit(std::size_t at);
  void follow_op(std::size_t at);
  void follow_stub(std::size_t at);
  void follow_function(std::size_t at);
  std::optional<Call> followed_call(const CallSite& site);
  StepKind kind_of_reference(std::string_view symbol, const Callee& callee) const;
  void find_definition_of(std::size_t at);
  const Callee& callee_of(std::string_view symbol);

  std::optional<std::size_t> own_kernel(std::size_t op) const;
  void find_dead_ends();
  void mark_leading(std::size_t at);
  std::size_t cheapest_node_of(std::string_view op) const;
  bool is_below(std::size_t at, std::size_t op) const;
  std::string unknown_callee(const Node& kernel) const;
  std::string why_stopped(std::size_t op) const;
  PathStep step_of(const Node& node) const;
  StaticPath path_to(std::size_t end) const;

  CallGraph& graph_;
  std::string_view key_;
  bool through_housekeeping_;
  OpWords words_;
  std::vector<Node> nodes_;
  std::unordered_set<std::string> visited_;
  std::unordered_map<const char*, Callee> callees_;
  using Next = std::pair<unsigned, std::size_t>;  // Cost, node.
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue_;
  std::vector<std::size_t> ends_;
  std::vector<std::size_t> dead_ends_;  // Related ops below which nothing was reached.
};

}  // namespace optrace
