#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/calls/call_graph.h"
#include "lookup/calls/virtual_functions.h"
#include "lookup/locate/entry_locator.h"
#include "lookup/locate/located.h"
#include "lookup/locate/op_lookup.h"

namespace optrace {

struct CallHierarchyOptions {
  std::size_t depth = 1;  ///< Number of calls from the answer to the farthest names.
  /// Also list more than 20 callers of a function, and calls of checks, containers and accessors.
  bool all = false;
};

/// Finds the callers and callees of C++ functions and of ops in the call sites of the indexes.
/// Calls through the dispatcher, through a stub and through Python's bindings are steps of their
/// own: a kernel is registered for an op, and the op's callers call it. A virtual function leads to
/// the functions that override it, and the callers of a function that it overrides may call it.
class CallHierarchy {
 public:
  /// All arguments must outlive this. Without `virtual_functions`, nothing overrides anything.
  CallHierarchy(CallGraph& graph, const EntryLocator& entries, OpLookup& ops,
                VirtualFunctions* virtual_functions = nullptr)
      : graph_(graph), entries_(entries), ops_(ops), virtual_functions_(virtual_functions) {}

  /// The most names that are added to one answer.
  static constexpr std::size_t kMaxNames = 2000;

  /// Returns true if callers and callees of the answer can be listed: if it is C++ or an op.
  static bool has_calls(const Located& answer);

  /// Adds the callers of an answer to its parts, each at the line of its call, and in its own parts
  /// its callers, up to a depth. A name is expanded only once, where it is nearest to the answer.
  void add_callers(Located& answer, const CallHierarchyOptions& options);

  /// Adds the callees of an answer in the same way, in the order of the calls.
  void add_callees(Located& answer, const CallHierarchyOptions& options);

 private:
  using Registrations = std::multimap<std::string_view, Registration, std::less<>>;

  template <typename Neighbours>
  void expand(Located& answer, const CallHierarchyOptions& options, Neighbours neighbours);
  void append_callers(Located& of, bool all);
  void append_callees(Located& of, bool all);
  void add_callers_of(const std::string& symbol, Located& of) const;
  void add_uses_of_kernel(Located& of);
  void add_bound_names(Located& of);
  void add_overridden(Located& of);
  void add_overriders(Located& of, bool all);
  std::vector<std::string> overriders(const Located& of);
  Located function(const std::string& symbol) const;
  std::optional<Located> callee(const CallSite& site);
  std::vector<std::string> dispatching_functions(std::string_view op) const;
  const Registrations& registrations();
  const std::multimap<std::string_view, PythonName, std::less<>>& bindings();

  CallGraph& graph_;
  const EntryLocator& entries_;
  OpLookup& ops_;
  VirtualFunctions* virtual_functions_;
  std::optional<Registrations> registrations_;  // By function; read when first needed.
  std::optional<std::multimap<std::string_view, PythonName, std::less<>>> bindings_;
};

}  // namespace optrace
