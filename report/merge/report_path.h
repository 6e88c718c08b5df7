#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tracer/trace/python_positions.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A path of calls with its count: one of the trace's, or one that the report shows and that stands
/// for several of the trace's. For PathKind::inlined, `what` is a number of DebugLines, or
/// kNone for an inlined redispatchBoxed, `traced`
/// and `also` are the paths that it leads to, and `calls` is the largest number of their calls.
struct ReportPath {
  std::uint32_t parent = kNone;  ///< Index of an earlier path.
  PathKind kind = PathKind::function;
  bool tail_call = false;
  bool leads = false;  ///< A path below it is always shown.
  std::uint32_t what = kNone;
  CodePosition call;  ///< The position in Python code that calls it.
  /// The line in native code that calls it, from debug info; 0 if unknown.
  std::uint32_t native_line = 0;
  std::uint32_t builtin = kNone;
  std::uint32_t through = kNone;  ///< The outermost folded frame between `parent` and this one.
  std::uint32_t thread = 0;       ///< The first thread that took it.
  std::uint32_t threads = 1;
  std::uint32_t traced = kNone;            ///< The first path of the trace that it stands for.
  std::vector<std::uint32_t> also;         ///< The other paths of the trace that it stands for.
  std::vector<std::uint32_t> folded_work;  ///< Folded paths of the trace with activity or records.
  std::uint32_t implementation = kNone;    ///< Function of the oneDNN implementation.
  std::uint32_t boxed = kNone;             ///< For an op: the boxed step that called it.
  std::uint64_t calls = 0;
};

/// Returns the position in Python code at which the path's function was called.
CodePosition position_of(const TracePath& path);

/// Visits the trace's paths that `path` stands for, in the order of their first call.
template <typename Visit>
void for_each_traced(const ReportPath& path, const Trace& trace, const Visit& visit) {
  visit(trace.paths[path.traced]);
  for (const std::uint32_t traced : path.also) visit(trace.paths[traced]);
}

/// Visits the trace's paths that `path` stands for and those folded into it, in the trace's order,
/// each with its index.
template <typename Visit>
void for_each_traced_work(const ReportPath& path, const Trace& trace, const Visit& visit) {
  std::vector<std::uint32_t> all{path.traced};
  all.insert(all.end(), path.also.begin(), path.also.end());
  all.insert(all.end(), path.folded_work.begin(), path.folded_work.end());
  std::ranges::sort(all);
  for (const std::uint32_t traced : all) visit(trace.paths[traced], traced);
}

/// A set of paths, in the order in which they were first taken.
class ReportPathSet {
 public:
  /// Adds `path.calls` to the equal path, or inserts the path. Returns its index.
  std::uint32_t add(ReportPath path);

  /// Allocates room for `count` different paths.
  void reserve(std::size_t count);

  std::vector<ReportPath>& paths() { return paths_; }
  const std::vector<ReportPath>& paths() const { return paths_; }

 private:
  // A slot of the hash table, which uses open addressing, has a power-of-two size and is at most
  // half full.
  struct Slot {
    std::uint32_t tag = 0;  // Bits of the hash that do not determine the slot.
    std::uint32_t place = kNone;
  };

  /// Returns the slot of the equal entry with that hash, or the free slot for it.
  template <typename IsSame>
  Slot* find(std::uint64_t hash, const IsSame& is_same);
  void grow(std::size_t size);

  std::vector<ReportPath> paths_;
  std::vector<Slot> slots_;
};

}  // namespace optrace
