#include "report/merge/path_selection.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/layers.h"
#include "pytorch/functions/vendor_libraries.h"

namespace optrace {
namespace {

// Collects the trace's paths and selects those that the report shows.
class PathSelection {
 public:
  PathSelection(const Trace& trace, TracedFunctions& functions, const CallDetails& calls, bool all)
      : trace_(trace), functions_(functions), calls_(calls), all_(all) {
    python_.reserve(trace_.python_functions.size());
    for (const PythonFunction& function : trace_.python_functions)
      python_.push_back(classify_python(function.name));
  }

  ReportPathSet run() {
    take_paths();
    find_implementations();
    find_leads();
    choose_shown();
    return std::move(shown_);
  }

 private:
  Visibility visibility_of(const ReportPath& path) {
    if (all_) return Visibility::always;
    if (path.kind == PathKind::python) {
      // Python code is shown if it leads to PyTorch. If nothing does, torch's own Python functions
      // are shown.
      const Visibility visibility = python_[path.what].visibility;
      return visibility == Visibility::always && any_lead_ ? Visibility::if_leading : visibility;
    }
    if (path.kind == PathKind::inlined && path.what == kNone) return Visibility::always;
    if (path.kind == PathKind::inlined)
      return functions_.debug_lines().inlined(path.what).classification.visibility;
    if (path.kind == PathKind::node || path.kind == PathKind::op || path.kind == PathKind::merged)
      return Visibility::always;
    if (path.kind == PathKind::function && path.calls == 0 && functions_.is_boxed_call(path.what))
      return Visibility::hidden;
    if (path.kind == PathKind::initial || path.what == kNone) return Visibility::hidden;
    if (fails(path)) return Visibility::always;
    return functions_[path.what].classification.visibility;
  }

  // Returns true if a library call failed at this path.
  bool fails(const ReportPath& path) const {
    bool any = false;
    if (path.traced != kNone)
      for_each_traced(path, trace_,
                      [&](const TracePath& one) { any = any || calls_.any_failed(one.ops); });
    return any;
  }

  // Returns true if the frame of an op replaces its caller's frame.
  bool is_replaced(const TracePath& caller) {
    if (caller.kind != PathKind::function) return false;
    return functions_.forwards_op(caller.what) || functions_.is_boxed_call(caller.what);
  }

  // Counts, for each path, the calls of ops that have a frame of their own.
  std::vector<std::uint64_t> calls_of_ops() {
    std::vector<std::uint64_t> calls(trace_.paths.size());
    std::vector<std::uint8_t> has_ops(trace_.paths.size());  // 1: merged, parent of ops.
    // Parents come before their children, so from the end every count is complete.
    for (std::size_t i = trace_.paths.size(); i-- > 0;) {
      const TracePath& path = trace_.paths[i];
      if (path.parent == kNone) continue;
      const bool is_op = path.kind == PathKind::op;
      if (is_op && trace_.paths[path.parent].kind == PathKind::merged) has_ops[path.parent] = 1;
      const std::uint64_t handed = is_op ? path.calls : calls[i];
      if (handed != 0 && is_replaced(trace_.paths[path.parent])) calls[path.parent] += handed;
    }
    // Below a merged path, the dispatcher function through which an op was called is unknown.
    for (std::size_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& path = trace_.paths[i];
      if (path.parent != kNone && has_ops[path.parent] != 0 && is_replaced(path))
        calls[i] = path.calls;
    }
    return calls;
  }

  // The dispatcher functions through which an op was called.
  struct Replaced {
    std::uint32_t outermost = kNone;  // A path of the trace; kNone if there are no such functions.
    std::uint32_t boxed = kNone;      // Function of the innermost boxed step.
  };

  // Returns these functions for each path of the trace: those among itself and the paths directly
  // above.
  std::vector<Replaced> replaced_paths() {
    std::vector<Replaced> replaced(trace_.paths.size());
    for (std::uint32_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& path = trace_.paths[i];
      if (!is_replaced(path)) continue;
      if (path.parent != kNone) replaced[i] = replaced[path.parent];
      if (replaced[i].outermost == kNone) replaced[i].outermost = i;
      if (functions_.is_boxed_call(path.what)) replaced[i].boxed = path.what;
    }
    return replaced;
  }

  // Makes an op's frame replace the dispatcher functions through which it was called. Returns the
  // trace path of the outermost of them, or of the op if there are none.
  std::uint32_t take_place(std::uint32_t op, const std::vector<Replaced>& replaced,
                           ReportPath& path) const {
    const std::uint32_t above = trace_.paths[op].parent;
    const Replaced through = above == kNone ? Replaced{} : replaced[above];
    path.boxed = through.boxed;
    if (all_) return op;
    const std::uint32_t outermost = through.outermost == kNone ? op : through.outermost;
    path.tail_call = trace_.paths[outermost].tail_call;
    path.call = position_of(trace_.paths[outermost]);
    path.builtin = trace_.paths[outermost].builtin;
    return outermost;
  }

  // Puts the inlined functions through which a native function made a call between it and the path.
  // `called` is the path whose parent is that function.
  void add_inlined(const TracePath& called, ReportPath& path) {
    if (called.call_offset == 0 || called.parent == kNone) return;
    const TracePath& caller = trace_.paths[called.parent];
    const bool is_native = caller.kind == PathKind::function || caller.kind == PathKind::initial;
    if (!is_native || caller.what == kNone) return;
    const DebugLines::Call& call =
        functions_.debug_lines().call_at(caller.what, called.call_offset);
    for (const auto& [function, line] : call.inlined) put_above(path, function, line);
    path.native_line = call.line;
  }

  // Puts an inlined function between a path and its parent.
  void put_above(ReportPath& path, std::uint32_t function, std::uint32_t line) {
    ReportPath inlined;
    inlined.kind = PathKind::inlined;
    inlined.parent = path.parent;
    inlined.what = function;
    inlined.native_line = line;
    inlined.thread = path.thread;
    inlined.threads = path.threads;
    inlined.traced = path.traced;
    inlined.calls = path.calls;
    path.parent = every_.add(std::move(inlined));
  }

  // Returns for each path of the trace if it is a boxed kernel that another one of the same op
  // calls: redispatchBoxed is inlined into most of its callers.
  std::vector<bool> handed_on_boxed() {
    std::vector<bool> handed_on(trace_.paths.size());
    // For each path, the innermost boxed kernel of the op, itself or above.
    std::vector<std::uint32_t> kernels(trace_.paths.size(), kNone);
    for (std::uint32_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& path = trace_.paths[i];
      if (path.kind != PathKind::function || path.what == kNone || functions_[path.what].step)
        continue;
      const std::uint32_t above = path.parent == kNone ? kNone : kernels[path.parent];
      const std::string& symbol = trace_.functions[path.what].symbol;
      kernels[i] = above;
      if (!is_boxed_kernel(symbol)) continue;
      kernels[i] = path.what;
      handed_on[i] =
          above != kNone && !is_same_boxed_kernel(trace_.functions[above].symbol, symbol);
    }
    return handed_on;
  }

  // Collects the trace's paths. An autograd node becomes a child of the op that made it, wherever
  // the engine ran it.
  void take_paths() {
    const std::vector<std::uint64_t> of_ops =
        all_ ? std::vector<std::uint64_t>(trace_.paths.size()) : calls_of_ops();
    const std::vector<Replaced> replaced = replaced_paths();
    const std::vector<bool> handed_on = handed_on_boxed();
    std::vector<std::uint32_t> places;
    places.reserve(trace_.paths.size());
    every_.reserve(trace_.paths.size());
    for (std::uint32_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& traced = trace_.paths[i];
      ReportPath path;
      path.kind = traced.kind;
      path.tail_call = traced.tail_call;
      path.what = traced.what;
      path.call = position_of(traced);
      path.builtin = traced.builtin;
      path.thread = traced.thread;
      path.threads = traced.thread_count;
      path.calls = traced.calls - std::min(traced.calls, of_ops[i]);
      path.traced = i;
      const bool made_by = traced.caused_by != kNone && traced.caused_by < i;
      const TracePath& called =
          trace_.paths[path.kind == PathKind::op ? take_place(i, replaced, path) : i];
      const std::uint32_t parent = made_by ? traced.caused_by : called.parent;
      if (parent != kNone) path.parent = places[parent];
      if (!made_by) add_inlined(called, path);
      if (handed_on[i]) put_above(path, kNone, 0);
      places.push_back(every_.add(std::move(path)));
    }
  }

  // Finds the implementation that each call of oneDNN ran. oneDNN's entry point is a single
  // function, and the implementation is further below.
  void find_implementations() {
    std::vector<ReportPath>& paths = every_.paths();
    // For each path: the innermost oneDNN entry point above it, with only library functions in
    // between.
    std::vector<std::uint32_t> entries(paths.size(), kNone);
    for (std::uint32_t i = 0; i < paths.size(); ++i) {
      const ReportPath& path = paths[i];
      if (path.kind != PathKind::function || path.what == kNone) continue;
      const FunctionFacts& function = functions_[path.what];
      const std::uint32_t entry = path.parent == kNone ? kNone : entries[path.parent];
      // Paths are in call order, so the first match is the outermost implementation.
      if (entry != kNone && paths[entry].implementation == kNone &&
          onednn_implementation(function.name))
        paths[entry].implementation = path.what;
      if (function.classification.layer == Layer::library)
        entries[i] = function.name == kOneDnnEntry ? i : entry;
    }
  }

  void find_leads() {
    std::vector<ReportPath>& paths = every_.paths();
    any_lead_ = std::ranges::any_of(paths, [&](const ReportPath& path) {
      return path.kind != PathKind::python && visibility_of(path) == Visibility::always;
    });
    for (std::size_t i = paths.size(); i-- > 0;) {
      paths[i].leads = paths[i].leads || works(paths[i]);
      if (paths[i].parent != kNone &&
          (paths[i].leads || visibility_of(paths[i]) == Visibility::always))
        paths[paths[i].parent].leads = true;
    }
  }

  // Selects the paths to show. Children of a folded path move to the nearest shown path above it.
  void choose_shown() {
    struct Place {
      std::uint32_t path = kNone;  // Itself if shown, else the shown path that it is folded into.
      const ReportPath* folded = nullptr;  // The outermost folded path below `path`.
      bool opaque = false;                 // What `path` calls is left out.
    };
    const std::vector<ReportPath>& every = every_.paths();
    std::vector<Place> places(every.size());
    for (std::size_t i = 0; i < every.size(); ++i) {
      const ReportPath& path = every[i];
      Place place = path.parent == kNone ? Place{} : places[path.parent];
      if (place.opaque) {
        places[i] = place;
        continue;
      }
      if (!is_shown(path, place.path)) {
        if (place.folded == nullptr) place.folded = &path;
        places[i] = place;
        if (place.path != kNone && (works(path) || asks(path))) {
          std::vector<std::uint32_t>& folded = shown_.paths()[place.path].folded_work;
          folded.push_back(path.traced);
          folded.insert(folded.end(), path.also.begin(), path.also.end());
        }
        continue;
      }
      ReportPath shown = path;
      shown.parent = place.path;
      if (place.folded != nullptr) {
        // The call made by the parent is that of the outermost folded frame.
        shown.tail_call = place.folded->tail_call;
        if (place.folded->kind == PathKind::function) shown.through = place.folded->what;
        shown.call = place.folded->call;
        shown.native_line = place.folded->native_line;
        if (path.kind != PathKind::python) shown.builtin = place.folded->builtin;
      }
      const bool under_python =
          place.path != kNone && shown_.paths()[place.path].kind == PathKind::python;
      if (!under_python) shown.call = {};
      if (under_python) shown.through = kNone;
      if (under_python || place.path == kNone) shown.native_line = 0;
      places[i] = {shown_.add(std::move(shown)), nullptr, !all_ && is_opaque(path)};
    }
  }

  bool is_opaque(const ReportPath& path) const {
    return path.kind == PathKind::python && python_[path.what].opaque;
  }

  bool is_shown(const ReportPath& path, std::uint32_t above) {
    switch (visibility_of(path)) {
      case Visibility::always:
        return true;
      case Visibility::hidden:
        return false;
      default:
        // A function that Python called directly is shown even if it leads to no op: Tensor.size.
        return path.leads || (above == kNone && path.builtin != kNone);
    }
  }

  // Returns true if a device did work for the path.
  bool works(const ReportPath& path) const {
    if (path.kind == PathKind::inlined) return false;
    bool any = false;
    for_each_traced(path, trace_,
                    [&](const TracePath& one) { any = any || !one.activities.empty(); });
    return any;
  }

  // Returns true if the path has records, which may describe library calls.
  bool asks(const ReportPath& path) const {
    if (path.kind == PathKind::inlined) return false;
    bool any = false;
    for_each_traced(path, trace_, [&](const TracePath& one) { any = any || !one.ops.empty(); });
    return any;
  }

  const Trace& trace_;
  TracedFunctions& functions_;
  const CallDetails& calls_;
  const bool all_;
  std::vector<Classification> python_;  // By Python function of the trace.
  ReportPathSet every_;
  ReportPathSet shown_;
  bool any_lead_ = false;  // A path other than Python code is always shown.
};

}  // namespace

ReportPathSet select_paths(const Trace& trace, TracedFunctions& functions, const CallDetails& calls,
                           bool all) {
  return PathSelection(trace, functions, calls, all).run();
}

}  // namespace optrace
