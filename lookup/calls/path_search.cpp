#include "lookup/calls/path_search.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include <fmt/core.h>

#include "lookup/calls/followed_calls.h"
#include "lookup/dispatch/dispatch_table.h"
#include "pytorch/functions/generated_names.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Costs of steps, by which the distance between functions is measured. A call of an op leads to
// another part of PyTorch, so functions that a kernel calls directly are nearer than other ops.
constexpr unsigned kCallCost = 2;
constexpr unsigned kOpCost = 5;
constexpr unsigned kRelatedOpCost = 3;
constexpr unsigned kStubCost = 1;
constexpr unsigned kFarthest = 70;

// Returns true for hand-written source files. Each has a subject, while a header serves many.
bool is_own_source(std::string_view file) {
  return (file.ends_with(".cpp") || file.ends_with(".cu")) && !file.starts_with("build/");
}

// Splits `CPU.AVX2` into the device and the CPU capability.
std::pair<std::string_view, std::string_view> split_stub_key(std::string_view key) {
  const std::size_t dot = key.find('.');
  return {key.substr(0, dot), dot == std::string_view::npos ? "" : key.substr(dot + 1)};
}

// Returns the key of a node. Nodes with the same key are visited once.
std::string mark_of(StepKind kind, std::string_view symbol) {
  return std::string(1, static_cast<char>('0' + static_cast<int>(kind))).append(symbol);
}

std::string search_limit() {
  return fmt::format("the search ends after {} functions and ops", StaticPaths::kMaxVisited);
}

}  // namespace

PathSearch::PathSearch(CallGraph& graph, std::string_view op, std::string_view key,
                       Housekeeping housekeeping)
    : graph_(graph),
      key_(key),
      through_housekeeping_(housekeeping == Housekeeping::followed || is_housekeeping_op(op)),
      words_(op) {
  add({StepKind::op, std::string(op), "", "", kNone, {}, 0});
}

void PathSearch::run() {
  while (!queue_.empty() && visited_.size() < StaticPaths::kMaxVisited) {
    const std::size_t at = queue_.top().second;
    queue_.pop();
    if (visited_.insert(mark_of(nodes_[at].kind, nodes_[at].symbol)).second) visit(at);
  }
  find_dead_ends();
}

bool PathSearch::may_have_skipped_ends() const {
  if (has_ends() || through_housekeeping_) return false;
  // A kernel for this very device has a loop of its own, and the ops that it uses for preparation
  // are not of interest.
  return std::ranges::none_of(
      dead_ends_, [&](std::size_t op) { return nodes_[op].note == key_ && own_kernel(op); });
}

std::vector<StaticPath> PathSearch::paths() const {
  std::vector<StaticPath> paths;
  std::set<std::string_view> seen;
  for (const std::size_t end : ends_)
    if (seen.insert(nodes_[end].symbol).second) paths.push_back(path_to(end));
  for (const std::size_t last : dead_ends_) {
    const auto kernel = own_kernel(last);
    if (!kernel && last == 0) continue;  // The op itself has no kernel there.
    StaticPath path = path_to(kernel.value_or(last));
    path.stopped = why_stopped(last);
    path.has_kernel = kernel.has_value();
    paths.push_back(std::move(path));
  }
  return paths;
}

void PathSearch::add(Node node) {
  if (node.cost > kFarthest) return;
  if (node.parent != kNone) {
    node.detours += nodes_[node.parent].detours;
    node.variants += nodes_[node.parent].variants;
  }
  const unsigned cost = node.cost;
  nodes_.push_back(std::move(node));
  queue_.emplace(cost, nodes_.size() - 1);
}

void PathSearch::visit(std::size_t at) {
  switch (nodes_[at].kind) {
    case StepKind::op:
      follow_op(at);
      break;
    case StepKind::function:
      follow_function(at);
      break;
    case StepKind::stub:
      follow_stub(at);
      break;
    case StepKind::device_kernel:
    case StepKind::library:
      ends_.push_back(at);
      break;
  }
}

void PathSearch::follow_op(std::size_t at) {
  const DispatchEntry entry = graph_.table(nodes_[at].symbol).entry(key_);
  if (!entry.registration || entry.registration->function.empty()) return;
  const std::string_view alias = alias_key(entry.reason);
  nodes_[at].note = alias.empty() ? entry.key : alias;
  add({StepKind::function,
       std::string(entry.registration->function),
       std::string(entry.registration->location.file),
       "",
       at,
       {},
       nodes_[at].cost});
}

void PathSearch::follow_stub(std::size_t at) {
  std::map<std::string_view, std::string> capabilities;  // By function.
  std::map<std::string_view, std::string_view> files;
  for (const Registration& one : graph_.index().registrations_of(nodes_[at].symbol)) {
    if (one.kind != RegistrationKind::stub || one.function.empty()) continue;
    const auto [device, capability] = split_stub_key(one.key);
    if (device != key_) continue;
    std::string& all = capabilities[one.function];
    if (!capability.empty()) all += (all.empty() ? "" : ", ") + std::string(capability);
    files.emplace(one.function, one.location.file);
  }
  for (const auto& [function, all] : capabilities) {
    add({StepKind::function,
         std::string(function),
         std::string(files[function]),
         all,
         at,
         {},
         nodes_[at].cost + kStubCost});
    ends_.push_back(nodes_.size() - 1);
  }
}

void PathSearch::follow_function(std::size_t at) {
  find_definition_of(at);
  const std::string symbol = nodes_[at].symbol;
  const std::string file = nodes_[at].source_file;
  const unsigned cost = nodes_[at].cost;
  std::unordered_set<const char*> seen;  // Only the first of several calls counts.
  for (const CallSite& site : graph_.index().calls_of(symbol, file)) {
    const std::optional<Call> call = followed_call(site);
    if (!call || !seen.insert(site.callee.data()).second ||
        visited_.contains(mark_of(call->kind, call->name)))
      continue;
    add({call->kind, std::string(call->name), std::string(site.location.file), "", at,
         site.location, cost + call->cost, call->detours, call->variants});
  }
}

// Returns the call at a call site; nothing if it is not followed.
std::optional<PathSearch::Call> PathSearch::followed_call(const CallSite& site) {
  if (site.kind == CallKind::launch)
    return Call{StepKind::device_kernel, site.callee, kCallCost, 0, 0};
  if (site.kind == CallKind::stub) {
    const unsigned variants = words_.variant_cost(site.callee, key_);
    return Call{StepKind::stub, site.callee, kStubCost + variants, 0, variants};
  }
  const Callee& callee = callee_of(site.callee);
  if (!callee.followed) return std::nullopt;
  const unsigned variants = callee.variant_cost;
  if (callee.kind == StepKind::op) {
    const bool related = words_.is_related_op(callee.op);
    return Call{StepKind::op, callee.op, (related ? kRelatedOpCost : kOpCost) + variants,
                related ? 0U : 1U, variants};
  }
  const StepKind kind =
      site.kind == CallKind::reference ? kind_of_reference(site.callee, callee) : callee.kind;
  return Call{kind, site.callee, kCallCost + variants, 0, variants};
}

// The function that takes the address of a kernel launches it, and that of a stub calls it.
StepKind PathSearch::kind_of_reference(std::string_view symbol, const Callee& callee) const {
  const auto definition = graph_.index().find_definition(symbol);
  if (definition && definition->kind == DefinitionKind::device_kernel)
    return StepKind::device_kernel;
  if (definition && definition->kind == DefinitionKind::stub) return StepKind::stub;
  return callee.kind;
}

// Records the file of a function. A direct call of another op's kernel is a detour, like a call of
// that op.
void PathSearch::find_definition_of(std::size_t at) {
  Node& node = nodes_[at];
  const auto found = graph_.index().find_definition(node.symbol, node.source_file);
  if (!found) return;
  node.file = found->location.file;
  if (node.parent == kNone || nodes_[node.parent].kind != StepKind::function) return;
  const std::string_view caller = nodes_[node.parent].file;
  if (is_own_source(caller) && is_own_source(node.file) && caller != node.file &&
      node.symbol.find("kernel") != std::string::npos && !words_.is_related_function(node.symbol))
    ++node.detours;
}

const PathSearch::Callee& PathSearch::callee_of(std::string_view symbol) {
  // An index stores a symbol once, so its address identifies it.
  const auto [at, added] = callees_.try_emplace(symbol.data());
  Callee& callee = at->second;
  if (!added) return callee;
  if (std::string op = graph_.op_of(symbol); !op.empty()) {
    callee.followed = through_housekeeping_ ? leads_to_work(op) : !is_housekeeping_op(op);
    callee.kind = StepKind::op;
    callee.op = std::move(op);
  } else if (const std::string_view library = library_of_callee(symbol); !library.empty()) {
    callee.followed = is_host_library(library) == (key_ == "CPU");
    callee.kind = StepKind::library;
  } else {
    callee.followed =
        is_followed(symbol) && (through_housekeeping_ || !is_housekeeping_function(symbol));
  }
  callee.variant_cost = words_.variant_cost(callee.op.empty() ? symbol : callee.op, key_);
  return callee;
}

// Returns an op's kernel: the function behind the wrapper, if there is one.
std::optional<std::size_t> PathSearch::own_kernel(std::size_t op) const {
  for (std::size_t at = op + 1; at < nodes_.size(); ++at) {
    if (nodes_[at].parent != op || nodes_[at].kind != StepKind::function) continue;
    for (std::size_t behind = at + 1; behind < nodes_.size(); ++behind)
      if (nodes_[behind].parent == at && nodes_[behind].kind == StepKind::function &&
          is_wrapper_symbol(nodes_[at].symbol) &&
          nested_name(nodes_[behind].symbol).starts_with("2at6native"))
        return behind;
    return at;
  }
  return std::nullopt;
}

// Of several dead ends in a row, only the last is one.
void PathSearch::find_dead_ends() {
  for (const std::size_t end : ends_) mark_leading(end);
  for (std::size_t at = nodes_.size(); at-- > 0;) {
    const Node& node = nodes_[at];
    if (node.kind != StepKind::op || node.leads || node.detours != 0) continue;
    if (cheapest_node_of(node.symbol) != at) continue;
    dead_ends_.push_back(at);
    mark_leading(at);  // The ops above it have an end now.
  }
  std::ranges::reverse(dead_ends_);
}

void PathSearch::mark_leading(std::size_t at) {
  for (; at != kNone && !nodes_[at].leads; at = nodes_[at].parent) nodes_[at].leads = true;
}

// Returns the node of an op that is visited. There is a node for each call.
std::size_t PathSearch::cheapest_node_of(std::string_view op) const {
  std::size_t best = kNone;
  for (std::size_t at = 0; at < nodes_.size(); ++at)
    if (nodes_[at].kind == StepKind::op && nodes_[at].symbol == op &&
        (best == kNone || nodes_[at].cost < nodes_[best].cost))
      best = at;
  return best;
}

bool PathSearch::is_below(std::size_t at, std::size_t op) const {
  while (at != kNone && at != op) at = nodes_[at].parent;
  return at == op;
}

// Returns the name of a function of PyTorch that a kernel calls and that the index lacks; empty if
// there is none.
std::string PathSearch::unknown_callee(const Node& kernel) const {
  for (const CallSite& site : graph_.index().calls_of(kernel.symbol, kernel.source_file)) {
    if (site.kind != CallKind::call || !is_followed(site.callee) ||
        graph_.index().find_definition(site.callee) || !graph_.op_of(site.callee).empty())
      continue;
    std::string name = qualified_name(site.callee);
    if (name.starts_with("at::") || name.starts_with("pytorch_")) return name;
  }
  return {};
}

// Returns the reason why nothing is known below an op.
std::string PathSearch::why_stopped(std::size_t op) const {
  if (!graph_.table(nodes_[op].symbol).entry(key_).registration)
    return std::string("no kernel is registered for ").append(key_);
  const auto at = own_kernel(op);
  if (!at) return search_limit();
  const Node& kernel = nodes_[*at];
  if (!graph_.index().find_definition(kernel.symbol, kernel.source_file))
    return "the index has no definition of this kernel";
  if (const std::string name = unknown_callee(kernel); !name.empty())
    return "the index has no definition of " + name + ", which it calls";
  for (std::size_t below = *at + 1; below < nodes_.size(); ++below)
    if (!visited_.contains(mark_of(nodes_[below].kind, nodes_[below].symbol)) &&
        is_below(below, op))
      return search_limit();
  return "the index has no library call, launch or stub below it";
}

PathStep PathSearch::step_of(const Node& node) const {
  PathStep step;
  step.kind = node.kind;
  step.note = node.note;
  step.call_line = node.call.line;
  step.call_approximate = node.call.approximate;
  if (node.kind == StepKind::op) {
    step.op = node.symbol;
    step.detour = node.parent != kNone && !words_.is_related_op(node.symbol);
    return step;
  }
  step.symbol = node.symbol;
  if (node.kind != StepKind::library)
    if (const auto found = graph_.index().find_definition(node.symbol, node.source_file))
      step.location = found->location;
  return step;
}

StaticPath PathSearch::path_to(std::size_t end) const {
  StaticPath path;
  for (std::size_t at = end; at != kNone; at = nodes_[at].parent)
    path.steps.push_back(step_of(nodes_[at]));
  std::ranges::reverse(path.steps);
  const PathStep& last = path.steps.back();
  if (last.kind == StepKind::library) {
    const std::string name = qualified_name(last.symbol);
    path.library = library_name(name);
    path.bookkeeping = is_library_bookkeeping(name);
  }
  if (last.kind == StepKind::device_kernel)
    path.named = words_.are_in_kernel(qualified_name(last.symbol));
  path.detours = nodes_[end].detours;
  path.variants = nodes_[end].variants;
  return path;
}

}  // namespace optrace
