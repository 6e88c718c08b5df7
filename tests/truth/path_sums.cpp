#include "truth/path_sums.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>
#include <vector>

#include <fmt/core.h>

#include "pytorch/functions/function_roles.h"
#include "tracer/calltree/call_tree.h"

namespace optrace {
namespace {

struct Step {
  PathKind kind = PathKind::function;
  bool tail_call = false;
  std::uint32_t parent = kNone;  // The parent's number in Sums.
  std::uint32_t what = kNone;
  std::uint32_t line = 0;
  std::uint32_t builtin = kNone;
  auto operator<=>(const Step&) const = default;
};

struct Sum {
  Step step;
  std::uint64_t in_paths = 0;
  std::uint64_t in_trees = 0;
};

class Sums {
 public:
  std::uint32_t number_of(const Step& step) {
    const auto [place, is_new] =
        numbers_.try_emplace(step, static_cast<std::uint32_t>(sums_.size()));
    if (is_new) sums_.push_back({.step = step});
    return place->second;
  }
  Sum& operator[](std::uint32_t number) { return sums_[number]; }
  const std::vector<Sum>& all() const { return sums_; }

 private:
  std::map<Step, std::uint32_t> numbers_;
  std::vector<Sum> sums_;
};

// Returns the functions that are bodies of parallel regions.
std::unordered_set<std::uint32_t> region_bodies(const Trace& trace) {
  std::unordered_set<std::uint32_t> bodies;
  for (std::uint32_t i = 0; i < trace.functions.size(); ++i)
    if (role_of(trace.functions[i].symbol).region_body) bodies.insert(i);
  for (const TracePath& path : trace.paths) {
    if (path.kind != PathKind::function || path.parent == kNone) continue;
    const TracePath& parent = trace.paths[path.parent];
    if (parent.kind == PathKind::function && parent.what != kNone &&
        role_of(trace.functions[parent.what].symbol).opens_region) {
      bodies.insert(path.what);
    }
  }
  return bodies;
}

std::string name_of(const Trace& trace, const Step& step) {
  switch (step.kind) {
    case PathKind::function:
    case PathKind::initial:
      return step.what == kNone ? "(unknown)" : trace.functions.at(step.what).symbol;
    case PathKind::merged:
      return "...";
    case PathKind::inlined:
      return "(inlined)";  // Never in a trace.
    case PathKind::python:
      return trace.python_functions.at(step.what).name;
    case PathKind::node:
    case PathKind::op:
      return step.what < trace.op_records.size() ? trace.op_records[step.what] : "(a node)";
  }
  return {};
}

}  // namespace

PathSums compare_path_sums(const Trace& trace) {
  const auto bodies = region_bodies(trace);
  const auto detached = [&](Step step) {
    if (step.kind != PathKind::function || !bodies.contains(step.what)) return step;
    return Step{.what = step.what};
  };
  Sums sums;
  std::vector<std::uint32_t> numbers;
  for (const TracePath& path : trace.paths) {
    const std::uint32_t parent = path.parent == kNone ? kNone : numbers.at(path.parent);
    numbers.push_back(sums.number_of(
        detached({path.kind, path.tail_call, parent, path.what, path.line, path.builtin})));
    sums[numbers.back()].in_paths += path.calls;
  }
  const TraceCallTreeFunctions functions(trace);
  for (const ThreadRecord& thread : trace.threads) {
    const CallTree tree(trace, functions, thread);
    numbers.clear();
    for (const CallTree::Node& node : tree.nodes()) {
      const std::uint32_t parent = node.shown_under == kNone ? kNone : numbers.at(node.shown_under);
      numbers.push_back(sums.number_of(
          detached({node.kind, node.tail_call, parent, node.what, node.line, node.builtin})));
      ++sums[numbers.back()].in_trees;
    }
  }
  PathSums result;
  result.paths = sums.all().size();
  for (const Sum& sum : sums.all()) {
    if (sum.in_paths == sum.in_trees) continue;
    if (result.differences++ != 0) continue;
    result.first = fmt::format("{} was counted {} times, and is {} times in the trees",
                               name_of(trace, sum.step), sum.in_paths, sum.in_trees);
    for (std::uint32_t at = sum.step.parent; at != kNone; at = sums[at].step.parent)
      result.first += "\n  under " + name_of(trace, sums[at].step);
  }
  return result;
}

}  // namespace optrace
