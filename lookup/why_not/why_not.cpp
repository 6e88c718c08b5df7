#include "lookup/why_not/why_not.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "lookup/calls/call_graph.h"
#include "lookup/calls/followed_calls.h"
#include "lookup/decisions/decision_functions.h"
#include "lookup/explain/explain.h"
#include "pytorch/names/op_name.h"
#include "pytorch/names/op_schema.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxDepth = 6;       // Of calls below a function on the way.
constexpr std::size_t kMaxHelpers = 2;     // Of them, directly below it, that decide nothing.
constexpr std::size_t kMaxVisited = 2000;  // Functions, for each function on the way.

/// Returns the name of a step without namespaces that may have the backend's name: an op's base, or
/// a qualified function.
std::string name_in(const PathStep& step) {
  return step.kind == StepKind::op ? split_op_name(step.op).base : qualified_name(step.symbol);
}

/// A step with which a path reaches a backend, and the line of its call.
struct Entry {
  std::vector<PathStep>::const_iterator step;
  PathStep shown;
};

/// Searches on one device.
class Search {
 public:
  Search(CallGraph& graph, const BackendName& backend, const std::string& device)
      : index_(graph.index()),
        graph_(graph),
        backend_(backend),
        routes_{device, std::string(dispatch_key_of_device(device)), {}} {}

  /// Adds what is on the path if it leads to the backend.
  void add_path(const StaticPath& path) {
    if (path.bookkeeping || path.steps.empty()) return;
    const std::optional<Entry> entry = entry_on(path);
    if (!entry) return;
    FunctionOnTheWay* last = nullptr;
    for (auto step = path.steps.begin(); step != entry->step; ++step) {
      if (step->kind != StepKind::function) continue;
      if (step != path.steps.begin()) add_overloads(*(step - 1), *step);
      last = &function_of(step->symbol, step->location);
    }
    if (last == nullptr) return;
    const bool known = std::ranges::any_of(last->entries, [&](const PathStep& other) {
      return other.symbol == entry->shown.symbol && other.op == entry->shown.op;
    });
    if (!known) last->entries.push_back(entry->shown);
    // A function that returns whether it used the backend leaves the decision to what it calls.
    if (entry->shown.kind == StepKind::function && decides(last->symbol, last->location.file))
      function_of(entry->step->symbol, entry->step->location);
  }

  bool has_route() const { return !routes_.functions.empty(); }

  /// Returns what stands between the op and the backend on the added paths.
  BackendRoutes take(bool all) {
    for (FunctionOnTheWay& function : routes_.functions) {
      visited_ = 0;
      above_ = {function.symbol};
      function.predicates = predicates_of(function.symbol, function.location.file, 0, 0);
      function.complete = visited_ <= kMaxVisited;
      if (!all) keep_related(function.predicates);
    }
    std::erase_if(routes_.functions, [](const FunctionOnTheWay& function) {
      return function.predicates.empty() && function.entries.empty();
    });
    return std::move(routes_);
  }

 private:
  /// Returns the first step of the backend. A wrapper of an op (`at::cudnn_convolution`) stands for
  /// the op; the backend of an op without a kernel for the device is another device's.
  std::optional<Entry> entry_on(const StaticPath& path) const {
    for (auto step = path.steps.begin() + 1; step != path.steps.end(); ++step) {
      const bool last = step + 1 == path.steps.end();
      if (!is_entry(*step) && !(last && backend_.is_in(path.library))) continue;
      Entry entry{step, *step};
      if (step->kind == StepKind::function && !last && (step + 1)->kind == StepKind::op) {
        entry.shown = *(step + 1);
        entry.shown.call_line = step->call_line;
        entry.shown.call_approximate = step->call_approximate;
      }
      if (entry.shown.kind == StepKind::op && !has_kernel(entry.shown.op)) return std::nullopt;
      return entry;
    }
    return std::nullopt;
  }

  bool has_kernel(const std::string& op) const {
    const auto kernel = graph_.table(op).entry(routes_.key).registration;
    return kernel && !kernel->function.empty();
  }

  bool is_entry(const PathStep& step) const {
    if (!backend_.is_in(name_in(step))) return false;
    // A function that decides whether a backend can be used has its name, too.
    return step.kind == StepKind::op || !decides(step.symbol, step.location.file);
  }

  bool decides(std::string_view symbol, std::string_view file) const {
    const auto type = index_.result_type_of(symbol, file);
    return type && is_decision(*type);
  }

  /// Adds the other overloads of a function on a path that `caller` calls: a path leads through one
  /// of those that are called for each dtype.
  void add_overloads(const PathStep& caller, const PathStep& callee) {
    if (caller.kind != StepKind::function) return;
    const std::string name = qualified_name(callee.symbol);
    for (const CallSite& site : index_.calls_of(caller.symbol, caller.location.file)) {
      if (site.callee == callee.symbol || qualified_name(site.callee) != name) continue;
      if (const auto definition = index_.find_definition(site.callee, site.location.file))
        function_of(site.callee, definition->location);
    }
  }

  FunctionOnTheWay& function_of(std::string_view symbol, const SourceLocation& location) {
    const auto known = std::ranges::find(routes_.functions, symbol, &FunctionOnTheWay::symbol);
    if (known != routes_.functions.end()) return *known;
    return routes_.functions.emplace_back(FunctionOnTheWay{.symbol = std::string(symbol),
                                                           .name = qualified_name(symbol),
                                                           .location = location,
                                                           .predicates = {},
                                                           .entries = {}});
  }

  bool is_on_the_way(std::string_view symbol) const {
    return std::ranges::find(routes_.functions, symbol, &FunctionOnTheWay::symbol) !=
           routes_.functions.end();
  }

  /// Returns the predicates that a function calls. `helpers` is the number of functions between it
  /// and the way, itself included, that decide nothing.
  std::vector<Predicate> predicates_of(const std::string& symbol, std::string_view file,
                                       std::size_t depth, std::size_t helpers) {
    std::vector<Predicate> found;
    if (depth == kMaxDepth) return found;
    std::set<std::string_view> seen;
    for (const CallSite& site : index_.calls_of(symbol, file)) {
      if (site.kind == CallKind::launch || !seen.insert(site.callee).second) continue;
      for (const auto& [callee, callee_file] : targets_of(site))
        if (auto one = predicate(callee, callee_file, site, depth, helpers))
          found.push_back(*std::move(one));
    }
    return found;
  }

  using Targets = std::vector<std::pair<std::string, std::string>>;

  /// A stub has a kernel for each CPU capability, which may all be the same function.
  static void add_target(const Registration& one, Targets& targets) {
    if (std::ranges::find(targets, one.function, &Targets::value_type::first) == targets.end())
      targets.emplace_back(one.function, one.location.file);
  }

  /// Returns the functions that a call leads to, with a file that tells them apart from others: the
  /// kernels of a stub, those of an op that returns no tensor, or the called function.
  Targets targets_of(const CallSite& site) {
    Targets targets;
    if (is_stub(site)) {
      for (const Registration& one : index_.registrations_of(site.callee))
        if (one.kind == RegistrationKind::stub && !one.function.empty() &&
            one.key.substr(0, one.key.find('.')) == routes_.key)
          add_target(one, targets);
    } else if (const std::string op = graph_.op_of(site.callee); !op.empty()) {
      add_kernel_of_choice(op, targets);
    } else {
      targets.emplace_back(site.callee, site.location.file);
    }
    return targets;
  }

  /// Returns true for a call through a stub, as which taking its address counts, too.
  bool is_stub(const CallSite& site) const {
    if (site.kind != CallKind::reference) return site.kind == CallKind::stub;
    const auto definition = index_.find_definition(site.callee);
    return definition && definition->kind == DefinitionKind::stub;
  }

  /// Adds the kernel of an op that returns a boolean or an integer, such as `_fused_sdp_choice`:
  /// the function behind the generated wrapper.
  void add_kernel_of_choice(const std::string& op, Targets& targets) {
    const auto entry = index_.find_op(unambiguous_name(op));
    if (!entry) return;
    const std::string schema = index_.facts_of(*entry).schema;
    if (!schema.ends_with("-> bool") && !schema.ends_with("-> int")) return;
    const auto kernel = graph_.table(op).entry(routes_.key).registration;
    if (!kernel) return;
    for (const CallSite& site : index_.calls_of(kernel->function, kernel->location.file))
      if (nested_name(site.callee).starts_with("2at6native")) {
        targets.emplace_back(site.callee, site.location.file);
        return;
      }
  }

  std::optional<Predicate> predicate(const std::string& symbol, const std::string& file,
                                     const CallSite& site, std::size_t depth, std::size_t helpers) {
    if (above_.contains(symbol) || is_on_the_way(symbol) || decides_nothing(symbol))
      return std::nullopt;
    Predicate one;
    one.symbol = symbol;
    one.name = qualified_name(symbol);
    one.call_line = site.location.line;
    one.call_approximate = site.location.approximate;
    one.by_reference = site.kind == CallKind::reference && !is_stub(site);
    const auto definition = index_.find_definition(symbol, file);
    if (definition) one.location = definition->location;
    const std::string own_file(definition ? definition->location.file : file);
    if (const auto type = index_.result_type_of(symbol, file); type && is_decision(*type)) {
      describe(*type, one);
      add_parts(own_file, depth, helpers, one);
      return one;
    }
    // Of helpers, only those directly below a function on the way are searched.
    if (depth != helpers || helpers == kMaxHelpers || !definition || !is_helper(symbol))
      return std::nullopt;
    add_parts(own_file, depth, helpers + 1, one);
    std::erase_if(one.parts, [](const Predicate& part) {
      return part.values.empty() && (!part.type.empty() || part.parts.empty());
    });
    if (one.parts.empty()) return std::nullopt;
    return one;
  }

  /// Returns true for a function that may call one that decides: not for work of a backend.
  static bool is_helper(std::string_view symbol) {
    return is_followed(symbol) && !is_housekeeping_function(symbol);
  }

  void describe(const ResultType& type, Predicate& one) const {
    one.type = type.name;
    one.is_about = backend_.is_in(one.name.substr(one.name.rfind(':') + 1));
    for (const Enumerator& value : type.enumerators)
      if (backend_.is_in(value.name)) one.values.push_back(value.name);
    one.is_about = one.is_about || !one.values.empty();
  }

  void add_parts(const std::string& file, std::size_t depth, std::size_t helpers, Predicate& one) {
    if (++visited_ > kMaxVisited) return;
    above_.insert(one.symbol);
    one.parts = predicates_of(one.symbol, file, depth + 1, helpers);
    above_.erase(one.symbol);
  }

  /// Keeps the predicates about the backend, those that they call, and what leads to them.
  void keep_related(std::vector<Predicate>& predicates) {
    std::erase_if(predicates, [&](Predicate& one) {
      keep_related_parts(one);
      return !one.is_about && one.parts.empty();
    });
  }

  /// What a predicate about the backend calls decides, too.
  void keep_related_parts(Predicate& one) {
    if (!one.is_about) {
      keep_related(one.parts);
      return;
    }
    if (!one.parts.empty() && !shown_.insert(one.symbol).second) {
      one.parts.clear();
      one.listed_before = true;
    }
    std::erase_if(one.parts, [](const Predicate& part) { return part.type.empty(); });
    for (Predicate& part : one.parts) keep_related_parts(part);
  }

  const SourceIndexes& index_;
  CallGraph& graph_;
  const BackendName& backend_;
  BackendRoutes routes_;
  std::set<std::string> above_;  // Functions whose predicates are being searched.
  std::set<std::string> shown_;
  std::size_t visited_ = 0;
};

}  // namespace

WhyNot why_not(const SourceIndexes& index, std::string_view op, const BackendName& backend,
               const std::vector<std::string>& devices, bool all) {
  WhyNot result{std::string(op), backend.text(), {}};
  StaticPaths paths(index);
  CallGraph graph(index);
  for (const std::string& device : devices) {
    Search search(graph, backend, device);
    for (const StaticPath& path : paths.find(op, dispatch_key_of_device(device)))
      search.add_path(path);
    if (search.has_route()) result.devices.push_back(search.take(all));
  }
  return result;
}

std::vector<std::string_view> reachable_backends(const SourceIndexes& index, std::string_view op,
                                                 const std::vector<std::string>& devices) {
  StaticPaths paths(index);
  CallGraph graph(index);
  std::vector<std::pair<std::string, std::vector<StaticPath>>> found;  // By device.
  found.reserve(devices.size());
  for (const std::string& device : devices)
    found.emplace_back(device, paths.find(op, dispatch_key_of_device(device)));
  std::vector<std::string_view> backends;
  for (const std::string_view name : known_backends()) {
    const BackendName backend(name);
    const bool reached = std::ranges::any_of(found, [&](const auto& on_device) {
      Search search(graph, backend, on_device.first);
      for (const StaticPath& path : on_device.second) search.add_path(path);
      return search.has_route();
    });
    if (reached) backends.push_back(name);
  }
  return backends;
}

}  // namespace optrace
