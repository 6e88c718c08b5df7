#include "lookup/calls/static_path.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "lookup/calls/followed_calls.h"
#include "lookup/calls/path_search.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Ranks functions that differ only in their precision (`cublasSgemm`, `dgemm_`): first PyTorch's
// default dtype, then functions that take the type as an argument.
int precision_rank(std::string_view name) {
  for (const std::string_view prefix :
       {"cublas", "cusolverDn", "cusparse", "cblas_", "LAPACKE_", "mkl_sparse_"})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  if (name.empty()) return 1;
  switch (name.front()) {
    case 'S':
    case 's':
      return 0;
    case 'D':
    case 'd':
      return 2;
    case 'C':
    case 'c':
      return 3;
    case 'Z':
    case 'z':
      return 4;
    default:
      return 1;
  }
}

// Among adjacent paths that differ only in their last function, moves the one for the default dtype
// to the front.
void prefer_default_precision(std::vector<StaticPath>& paths) {
  const auto same_way = [](const StaticPath& a, const StaticPath& b) {
    return a.library == b.library && a.bookkeeping == b.bookkeeping && a.stopped.empty() &&
           !a.library.empty() && a.steps.size() == b.steps.size() && a.steps.size() > 1 &&
           qualified_name(a.steps[a.steps.size() - 2].symbol) ==
               qualified_name(b.steps[b.steps.size() - 2].symbol);
  };
  for (auto first = paths.begin(); first != paths.end();) {
    auto last = std::find_if_not(first, paths.end(),
                                 [&](const StaticPath& one) { return same_way(*first, one); });
    if (last == first) ++last;
    std::stable_sort(first, last, [](const StaticPath& a, const StaticPath& b) {
      return precision_rank(qualified_name(a.steps.back().symbol)) <
             precision_rank(qualified_name(b.steps.back().symbol));
    });
    first = last;
  }
}

// Sorts the paths of an op, the likeliest first; `paths` must be sorted by their length. Computing
// comes before bookkeeping, paths related to the op's name before detours and other variants,
// libraries before PyTorch's own kernels, and those before copies by the CUDA runtime. Among
// functions that differ only in their precision, the one for PyTorch's default dtype comes first.
void sort_paths(std::vector<StaticPath>& paths) {
  std::ranges::stable_sort(paths, [](const StaticPath& a, const StaticPath& b) {
    const auto rank = [](const StaticPath& path) {
      return std::tuple(!path.has_kernel, path.bookkeeping, path.detours, path.variants,
                        path.library == "CUDA", !path.stopped.empty(), path.library.empty(),
                        !path.named);
    };
    return rank(a) < rank(b);
  });
  prefer_default_precision(paths);
}

}  // namespace

std::string_view name_of(StepKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"op", "function", "stub", "device kernel",
                                                      "library"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::vector<StaticPath> StaticPaths::find(std::string_view op, std::string_view key) {
  PathSearch search(graph_, op, key, Housekeeping::skipped);
  search.run();
  std::vector<StaticPath> paths = search.paths();
  if (search.may_have_skipped_ends()) {
    PathSearch thorough(graph_, op, key, Housekeeping::followed);
    thorough.run();
    if (thorough.has_ends()) paths = thorough.paths();
  }
  sort_paths(paths);
  return paths;
}

std::vector<CalledOp> StaticPaths::ops_called(std::string_view symbol) {
  constexpr unsigned kMaxDepth = 6;
  constexpr std::size_t kMax = 400;  // Functions.
  struct Reached {
    std::string symbol;
    std::string file;
    SourceLocation line;  // In the first function.
    unsigned depth;
  };
  std::queue<Reached> queue;
  queue.push({std::string(symbol), "", {}, 0});
  std::unordered_set<std::string> visited;
  std::map<std::string, SourceLocation> found;
  while (!queue.empty() && visited.size() < kMax) {
    const Reached at = std::move(queue.front());
    queue.pop();
    if (!visited.insert(at.symbol).second) continue;
    for (const CallSite& site : graph_.index().calls_of(at.symbol, at.file)) {
      const SourceLocation line = at.depth == 0 ? site.location : at.line;
      if (std::string op = graph_.op_of(site.callee); !op.empty())
        found.try_emplace(std::move(op), line);
      else if (at.depth < kMaxDepth && is_followed(site.callee))
        queue.push({std::string(site.callee), std::string(site.location.file), line, at.depth + 1});
    }
  }
  std::vector<CalledOp> ops;
  ops.reserve(found.size());
  for (const auto& [name, at] : found)
    ops.push_back({name, at.line, is_housekeeping_op(name), at.approximate});
  std::ranges::stable_sort(ops, [](const CalledOp& a, const CalledOp& b) {
    return std::tuple(a.housekeeping, a.line) < std::tuple(b.housekeeping, b.line);
  });
  return ops;
}

}  // namespace optrace
