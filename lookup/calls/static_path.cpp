#include "lookup/calls/static_path.h"

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "lookup/calls/followed_calls.h"
#include "lookup/calls/path_order.h"
#include "lookup/calls/path_search.h"

namespace optrace {

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
  std::stable_sort(ops.begin(), ops.end(), [](const CalledOp& a, const CalledOp& b) {
    return std::tuple(a.housekeeping, a.line) < std::tuple(b.housekeeping, b.line);
  });
  return ops;
}

}  // namespace optrace
