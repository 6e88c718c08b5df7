#include "lookup/calls/path_tree.h"

#include <algorithm>
#include <set>
#include <utility>

#include "pytorch/functions/generated_names.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxPaths = 4;  // For one device, unless all are requested.

bool is_same_step(const PathStep& a, const PathStep& b) {
  return a.kind == b.kind && a.symbol == b.symbol && a.op == b.op;
}

// Returns true for functions that only pass a call on: torchgen's wrappers, and the one-line
// functions of ATen/Functions.h and of Tensor that call an op.
bool hands_on(const StaticPath& path, std::size_t at) {
  if (path.steps[at].kind != StepKind::function) return false;
  if (at + 1 < path.steps.size() && path.steps[at + 1].kind == StepKind::op) {
    const std::string_view file = path.steps[at].location.file;
    return file.ends_with("/ATen/Functions.h") || file.ends_with("/core/TensorBody.h") ||
           file.ends_with("/ATen/TensorOperators.h") ||
           file.find("/ATen/ops/") != std::string_view::npos;
  }
  return at != 0 && path.steps[at - 1].kind == StepKind::op && at + 1 < path.steps.size() &&
         is_wrapper_symbol(path.steps[at].symbol);
}

// Returns the ops of a path that are related to the op's name. They define its branch.
std::vector<std::string_view> branch(const StaticPath& path) {
  std::vector<std::string_view> ops;
  for (const PathStep& step : path.steps)
    if (step.kind == StepKind::op && !step.detour) ops.push_back(step.op);
  return ops;
}

// Returns the longer path if `path` ends at a stub's kernel, and another continues to a kernel
// launch.
const StaticPath* deepest(const StaticPath* path, const std::vector<StaticPath>& paths) {
  if (path->steps.back().kind != StepKind::function || !path->stopped.empty()) return path;
  const auto goes_on = [&](const StaticPath& other) {
    return other.steps.size() > path->steps.size() && other.detours == path->detours &&
           other.steps.back().kind == StepKind::device_kernel &&
           std::equal(path->steps.begin(), path->steps.end(), other.steps.begin(), is_same_step);
  };
  const auto found = std::ranges::find_if(paths, goes_on);
  return found == paths.end() ? path : &*found;
}

// Returns the likeliest paths of each branch and for each library.
std::vector<const StaticPath*> likeliest(const std::vector<StaticPath>& paths) {
  std::vector<const StaticPath*> chosen;
  std::set<std::pair<std::vector<std::string_view>, std::string_view>> seen;
  std::set<std::vector<std::string_view>> branches;
  for (const StaticPath& path : paths) {
    if (chosen.size() == kMaxPaths) break;
    const std::vector<std::string_view> own = branch(path);
    // PyTorch's own kernels, and copies and fills of the CUDA runtime, are less informative than
    // the paths that the branch already has.
    const bool lesser = path.bookkeeping || path.library == "CUDA" || path.library.empty();
    if (lesser && branches.contains(own)) continue;
    if (!chosen.empty() &&
        (path.bookkeeping || !path.has_kernel || path.detours > chosen.front()->detours ||
         path.variants > chosen.front()->variants))
      continue;
    if (!seen.emplace(own, path.library).second) continue;
    branches.insert(own);
    chosen.push_back(deepest(&path, paths));
  }
  return chosen;
}

// `call` is the step whose line calls this one; null if no line is known.
PathTreeNode& child_for(std::vector<PathTreeNode>& children, const PathStep& step,
                        const PathStep* call) {
  const auto found = std::ranges::find_if(
      children, [&](const PathTreeNode& child) { return is_same_step(*child.step, step); });
  if (found != children.end()) return *found;
  PathTreeNode& child = children.emplace_back();
  child.step = &step;
  if (call != nullptr) {
    child.call_line = call->call_line;
    child.call_approximate = call->call_approximate;
  }
  return child;
}

void insert(PathTree& tree, const StaticPath& path, bool all) {
  std::vector<PathTreeNode>* children = &tree.roots;
  PathTreeNode* at = nullptr;
  // A step that is left out passes its call line on to the op after it.
  const PathStep* handed_on = nullptr;
  for (std::size_t i = 0; i < path.steps.size(); ++i) {
    const PathStep& step = path.steps[i];
    if (!all && hands_on(path, i)) {
      handed_on = step.call_line == 0 ? nullptr : &step;
      continue;
    }
    const bool behind_wrapper =
        !all && i != 0 && hands_on(path, i - 1) && step.kind != StepKind::op;
    const PathStep* const call = behind_wrapper         ? nullptr
                                 : handed_on != nullptr ? handed_on
                                                        : &step;
    handed_on = nullptr;
    at = &child_for(*children, step, call);
    children = &at->children;
  }
  if (at == nullptr) return;
  at->library = path.library;
  at->stopped = path.stopped;
}

}  // namespace

PathTree path_tree(const std::vector<StaticPath>& paths, bool all) {
  PathTree tree;
  if (all) {
    for (const StaticPath& path : paths) insert(tree, path, all);
    return tree;
  }
  const std::vector<const StaticPath*> chosen = likeliest(paths);
  for (const StaticPath* const path : chosen) insert(tree, *path, all);
  tree.left_out = paths.size() - chosen.size();
  return tree;
}

std::string name_of(const PathStep& step) {
  return step.kind == StepKind::op ? step.op : short_name(qualified_name(step.symbol));
}

std::string note_of(const PathTreeNode& node) {
  const PathStep& step = *node.step;
  if (!step.note.empty()) return step.note;
  if (step.kind == StepKind::stub) return "stub";
  if (step.kind == StepKind::device_kernel) return "device kernel";
  return std::string(node.library);
}

}  // namespace optrace
