#include "report/merge/frame_builder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "platform/chunked_vector.h"
#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/generated_names.h"
#include "pytorch/functions/layers.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/names/op_name.h"
#include "pytorch/source/cpu_capability.h"
#include "pytorch/source/source_files.h"
#include "report/details/decisions.h"
#include "report/details/dispatch_detail.h"
#include "report/details/recorded_variables.h"
#include "report/details/returned_values.h"
#include "report/merge/call_lines.h"
#include "report/merge/library_calls.h"
#include "report/merge/shared_parts.h"
#include "report/model/frame_time.h"

namespace optrace {
namespace {

// The wrapper that calls a kernel with unboxed arguments (make_boxed_from_unboxed_functor.h).
constexpr std::string_view kUnboxedKernel = "c10::impl::wrap_kernel_functor_unboxed_<";

// Returns true for kernels that ATen compiles for several CPU capabilities. They are called through
// a stub, which selects the copy.
bool is_behind_stub(const FunctionFacts& function) {
  return function.source && (function.source->file.starts_with("aten/src/ATen/native/cpu/") ||
                             function.source->file.find("/UfuncCPUKernel_") != std::string::npos);
}

// The number of different details of dispatcher steps that are kept to be used again.
constexpr std::size_t kMaxStepDetails = 65536;

// Makes the frames of a report's paths.
class FrameBuilder {
 public:
  FrameBuilder(const FrameSources& from, const std::vector<ReportPath>& paths)
      : trace_(from.trace),
        index_(from.index),
        functions_(from.functions),
        python_links_(from.python_links),
        times_(from.times),
        processes_(from.processes),
        paths_(paths),
        torch_folder_(trace_.meta.torch_folder),
        records_(from.records),
        dispatch_(trace_, records_),
        call_lines_(call_lines_of(index_)),
        library_calls_(trace_, functions_, from.calls, call_lines_ ? &*call_lines_ : nullptr,
                       times_),
        symbols_(trace_.functions.size()) {
    find_unboxed();
  }

  std::vector<Frame> make_frames() {
    ChunkedVector<Frame> frames(paths_.size());  // Shrinks as frames move into their parents.
    PathLists launched;  // For a frame, the paths in the trace of its launches and failed calls.
    // For each path: the path itself, or the nearest one above it that is a dispatcher frame with
    // an op.
    std::vector<std::uint32_t> steps(paths_.size(), kNone);
    for (std::uint32_t i = 0; i < paths_.size(); ++i) {
      const ReportPath& path = paths_[i];
      const bool is_root = path.parent == kNone;
      const std::uint32_t step = is_root ? kNone : steps[path.parent];
      std::vector<std::uint32_t> of_frame;
      frames[i] = make_frame(path, is_root ? nullptr : &frames[path.parent],
                             step == kNone ? nullptr : &frames[step], of_frame);
      if (!of_frame.empty()) launched.emplace(i, std::move(of_frame));
      frames[i].number = frame_number(i);
      if (processes_ != nullptr)
        processes_->describe(path, i, is_root ? nullptr : &frames[path.parent], frames[i]);
      share_parts(frames[i]);
      for (Frame& child : frames[i].children) share_parts(child);
      steps[i] = frames[i].op && frames[i].layer == Layer::dispatcher ? i : step;
    }
    return assemble(frames, launched);
  }

 private:
  // Lists of the trace's paths, for the few frames that have one.
  using PathLists = std::unordered_map<std::size_t, std::vector<std::uint32_t>>;

  // Moves each frame into its parent. Returns the roots.
  std::vector<Frame> assemble(ChunkedVector<Frame>& frames, const PathLists& launched) {
    std::vector<std::uint32_t> children(paths_.size());
    for (const ReportPath& path : paths_)
      if (path.parent != kNone) ++children[path.parent];
    // For a frame with launches, the paths in the trace of its called frames.
    PathLists called;
    // Parents come before their children, so from the end every frame is complete when it is
    // moved.
    std::vector<Frame> roots;
    for (std::size_t i = paths_.size(); i-- > 0;) {
      if (const auto of_frame = launched.find(i); of_frame != launched.end())
        put_in_order(frames[i].children, of_frame->second, called[i]);
      else
        std::ranges::reverse(frames[i].children);
      if (library_calls_.assign_calls_to_callees(paths_[i], frames[i])) share_calls(frames[i]);
      if (const FunctionFacts* const function = known_function(paths_[i]);
          function != nullptr && !function->decisions.empty())
        add_decisions_not_seen(frames[i], function->decisions);
      if (auto& time = frames[i].time) cover_calls(frames[i], *time);
      const std::uint32_t parent = paths_[i].parent;
      std::vector<Frame>& siblings = parent == kNone ? roots : frames[parent].children;
      if (parent != kNone && children[parent] != 0) {
        // Only now, because this block may take the memory of frames that have been moved.
        siblings.reserve(siblings.size() + children[parent]);
        children[parent] = 0;
      }
      siblings.push_back(std::move(frames[i]));
      if (launched.contains(parent)) called[parent].push_back(paths_[i].traced);
      frames.drop_from(i);
    }
    std::reverse(roots.begin(), roots.end());
    return roots;
  }

  void share_parts(Frame& frame) {
    frame.detail = shared_.detail(std::move(frame.detail));
    frame.source = shared_.source(std::move(frame.source));
  }

  // Shares the details of a frame and of those that got its library calls.
  void share_calls(Frame& frame) {
    share_parts(frame);
    for (Frame& child : frame.children)
      if (!child.detail->calls.empty()) share_parts(child);
  }

  // Makes a frame; its only children are launched kernels and failed calls. `step` is the nearest
  // dispatcher frame with an op above it. `launched` gets the trace's path of each child.
  // `parent` and `step` may be null.
  Frame make_frame(const ReportPath& path, const Frame* parent, const Frame* step,
                   std::vector<std::uint32_t>& launched) {
    Frame frame = path.kind == PathKind::python    ? make_python_frame(path)
                  : path.kind == PathKind::node    ? make_node_frame(path, parent)
                  : path.kind == PathKind::op      ? make_op_frame(path)
                  : path.kind == PathKind::inlined ? make_inlined_frame(path, step)
                                                   : make_native_frame(path, step, launched);
    if (path.kind != PathKind::inlined) library_calls_.add_work(path, frame, launched);
    frame.thread = trace_.threads[path.thread].id;
    for (Frame& kernel : frame.children) kernel.thread = frame.thread;
    frame.calls = path.calls;
    // Of a call from Python, or of one from a function with debug info.
    if (const std::uint32_t line = path.call.line != 0 ? path.call.line : path.native_line;
        line != 0) {
      FrameSource& source = frame.source.edit();
      source.call_line = line;
      if (path.call.column != 0)
        source.call_range = {path.call.column, path.call.end_line, path.call.end_column};
    } else if (const std::vector<SourceLocation> lines = call_lines(path); !lines.empty()) {
      set_call_line(lines, functions_, frame);
      if (lines.size() > 1 && frame.source && frame.source->call_line)
        for (const SourceLocation& each : lines)
          frame.detail.edit().call_lines.push_back(each.line);
    }
    if (parent != nullptr && !frame.op) frame.op = inherited_op(frame, *parent);
    if (times_) frame.time = time_of(path);
    return frame;
  }

  static std::optional<CallLines> call_lines_of(const Index* index) {
    if (index == nullptr) return std::nullopt;
    return CallLines(*index);
  }

  // Returns the native function of a path's frame.
  static std::uint32_t function_of(const ReportPath& path) {
    return path.kind == PathKind::function ? path.what
           : path.kind == PathKind::op     ? path.boxed
                                           : kNone;
  }

  // Returns the lines of the index at which a native frame's parent calls it.
  std::vector<SourceLocation> call_lines(const ReportPath& path) {
    if (path.parent == kNone || !call_lines_ || path.kind == PathKind::python) return {};
    const std::uint32_t calling = function_of(paths_[path.parent]);
    const std::uint32_t called = function_of(path);
    if (calling == kNone || called == kNone) return {};
    const FunctionFacts& caller = functions_[calling];
    const FunctionFacts& callee = functions_[called];
    // Its other lines are exact, and those of the index may not be.
    if (caller.source && caller.source->debug_info) return {};
    std::vector<SourceLocation> lines;
    if (path.through != kNone)
      lines = call_lines_->find(caller.indexed, functions_[path.through].indexed);
    if (lines.empty()) lines = call_lines_->find(caller.indexed, callee.indexed);
    if (lines.empty() && caller.step) lines = call_lines_->find_dispatch(caller.indexed);
    if (lines.empty() && is_behind_stub(callee)) lines = call_lines_->find_stub(caller.indexed);
    if (lines.empty() && path.through == kNone)
      lines = call_lines_->find_by_name(caller.indexed, callee.indexed, !callee.source);
    return lines;
  }

  Frame make_python_frame(const ReportPath& path) const {
    const PythonFunction& function = trace_.python_functions[path.what];
    Frame frame;
    frame.layer = classify_python(function.name).layer;
    frame.name = function.name;
    if (!function.file.empty()) {
      FrameSource& source = frame.source.edit();
      source.file = relative_to_torch(function.file, torch_folder_);
      source.line = function.first_line;
      source.url = python_links_.of_python(source.file, source.line);
    }
    std::vector<OpCallCount> records;
    for_each_traced(path, trace_, [&](const TracePath& one) {
      records.insert(records.end(), one.ops.begin(), one.ops.end());
    });
    if (std::vector<RecordedVariable> variables = recorded_variables(records_, records);
        !variables.empty())
      frame.detail.edit().variables = std::move(variables);
    return frame;
  }

  // Returns derivatives.yaml's entry for the node that an op makes: each formula with its line.
  std::optional<OpFacts::Derivative> derivative_of(std::string_view op,
                                                   std::string_view node) const {
    if (index_ == nullptr) return std::nullopt;
    const auto entry = index_->find_op(unambiguous_name(op));
    if (!entry || entry->name != op) return std::nullopt;
    for (OpFacts::Derivative& derivative : index_->facts_of(*entry).derivatives)
      if (derivative.node == node) return std::move(derivative);
    return std::nullopt;
  }

  // Makes the frame of an autograd node that ran, under the node's own name:
  // `ConvolutionBackward0`.
  Frame make_node_frame(const ReportPath& path, const Frame* parent) const {
    Frame frame;
    frame.layer = Layer::autograd;
    const auto* const run = records_.find<NodeRun>(path.what);
    frame.name = run == nullptr ? "?" : run->name;
    NodeDetail node{frame.name, {}, {}};
    if (parent != nullptr && parent->op) {
      node.backward_of = *parent->op;
      if (const auto derivative = derivative_of(*parent->op, frame.name)) {
        frame.source = functions_.source_at({kDerivativesFile, derivative->line});
        for (const OpFacts::Formula& formula : derivative->backward)
          node.formulas.push_back({formula.arguments, formula.text, formula.line});
      }
    }
    frame.detail.edit().node = std::move(node);
    return frame;
  }

  // Makes the frame of an op that was called without a dispatcher step of its own.
  Frame make_op_frame(const ReportPath& path) {
    Frame frame;
    frame.layer = Layer::dispatcher;
    frame.name = kUnboxedCall;
    if (path.boxed != kNone) {
      const FunctionFacts& function = functions_[path.boxed];
      frame.name = function.name;
      frame.symbol = symbol_of(path.boxed);
      frame.library = function.library;
      frame.source = function.source;
    }
    if (const auto* const call = records_.find<OpCallRecord>(path.what)) frame.op = call->op;
    frame.detail = step_detail(path, {}, frame.op);
    add_call_facts(path, frame.detail);
    return frame;
  }

  // Makes the frame of a function that was inlined into the one above. A redispatchBoxed hands on
  // the op of `step`, the nearest step above.
  Frame make_inlined_frame(const ReportPath& path, const Frame* step) const {
    if (path.what == kNone) {
      Frame frame;
      frame.layer = Layer::dispatcher;
      frame.name = kBoxedRedispatch;
      frame.detail.edit().inlined = true;
      if (step == nullptr) return frame;
      frame.op = step->op;
      frame.detail.edit().dispatch =
          dispatch_.handed_on(frame.op.value_or(""), *step->detail->dispatch);
      return frame;
    }
    const InlinedFrame& function = functions_.debug_lines().inlined(path.what);
    Frame frame;
    frame.layer = function.classification.layer;
    frame.name = function.name;
    if (!function.symbol.empty()) frame.symbol = function.symbol;
    frame.library = function.library;
    frame.source = function.source;
    frame.detail.edit().inlined = true;
    add_call_facts(path, frame.detail);
    return frame;
  }

  // Returns the facts about a path's native function; null for other paths.
  const FunctionFacts* known_function(const ReportPath& path) {
    return path.kind == PathKind::function && path.what != kNone ? &functions_[path.what] : nullptr;
  }

  void add_call_facts(const ReportPath& path, Shared<Detail>& detail) const {
    if (path.builtin != kNone)
      detail.edit().python_name = trace_.python_functions[path.builtin].name;
    if (path.threads > 1) detail.edit().threads = path.threads;
    if (path.tail_call) detail.edit().tail_call = true;
  }

  Frame make_native_frame(const ReportPath& path, const Frame* step,
                          std::vector<std::uint32_t>& order) {
    Frame frame;
    if (path.kind == PathKind::merged) {
      frame.name = "...";
      frame.detail.edit().merged = true;
      return frame;
    }
    if (path.what == kNone) {
      frame.name = path.kind == PathKind::function ? "(interpreter and system libraries)" : "?";
      return frame;
    }
    const FunctionFacts& function = functions_[path.what];
    frame.layer = function.classification.layer;
    frame.name = function.name;
    frame.symbol = symbol_of(path.what);
    frame.library = function.library;
    frame.source = function.source;
    frame.op = function.op;
    // A boxed redispatch doesn't name its op; it continues the op of the step above.
    if (step != nullptr && functions_.is_boxed_redispatch(path.what)) frame.op = step->op;
    if (function.step)
      frame.detail = step_detail(path, *function.step, frame.op);
    else if (Detail detail = native_detail(path, frame, order); detail != Detail())
      frame.detail = std::move(detail);
    if (function.result) add_returned(path, *function.result, frame.detail);
    add_call_facts(path, frame.detail);
    if (path.kind == PathKind::initial) frame.detail.edit().entered_before_recording = true;
    if (path.kind == PathKind::function && !trace_.functions[path.what].probed)
      frame.detail.edit().calls_at_least = true;
    return frame;
  }

  // Adds what the calls of all of the trace's paths that this path stands for have returned.
  void add_returned(const ReportPath& path, const ResultType& type, Shared<Detail>& detail) const {
    std::vector<ReturnCount> counts;
    std::uint64_t left_out = 0;
    for_each_traced(path, trace_, [&](const TracePath& one) {
      counts.insert(counts.end(), one.returned.begin(), one.returned.end());
      left_out += one.returned_left_out;
    });
    if (std::optional<ReturnedValues> returned = returned_values(type, counts, left_out))
      detail.edit().returned = std::move(returned);
  }

  // Describes the call of a function that is not a dispatcher step.
  Detail native_detail(const ReportPath& path, Frame& frame, std::vector<std::uint32_t>& order) {
    Detail detail;
    if (frame.layer == Layer::kernel)
      if (const auto capability = capability_of_copy(trace_.functions[path.what].source_file))
        detail.cpu_capability = *capability;
    if (frame.layer == Layer::library) {
      detail.library = library_name(frame.name);
      detail.emulated = functions_[path.what].emulated;
      if (path.implementation != kNone)
        detail.implementation =
            onednn_implementation(functions_[path.implementation].name).value_or("");
    }
    if (const auto* const origins = functions_[path.what].origins) detail.origins = *origins;
    library_calls_.add_calls(path, frame, detail, order);
    return detail;
  }

  // Describes the dispatcher's choice, using all of the trace's paths that this path stands for.
  Shared<Detail> step_detail(const ReportPath& path, const DispatcherStep& step,
                             const std::optional<std::string>& op) {
    std::vector<OpCallCount> ops;
    std::vector<ArgumentCount> arguments;
    std::uint64_t left_out = 0;
    bool unboxed = false;
    for_each_traced(path, trace_, [&](const TracePath& one) {
      ops.insert(ops.end(), one.ops.begin(), one.ops.end());
      arguments.insert(arguments.end(), one.arguments.begin(), one.arguments.end());
      left_out += one.ops_left_out;
      unboxed =
          unboxed || calls_unboxed_[static_cast<std::size_t>(&one - trace_.paths.data())] != 0;
    });
    const std::string_view name = op ? std::string_view(*op) : std::string_view();
    const bool by_threads = path.threads > 1;
    std::string inputs = fmt::format("{}|{}{}{}{}|{}|", name, step.redispatch, step.op.empty(),
                                     unboxed, by_threads, left_out);
    for (const OpCallCount& one : ops)
      fmt::format_to(std::back_inserter(inputs), "{},{},{};", one.record, one.results, one.calls);
    for (const ArgumentCount& one : arguments)
      fmt::format_to(std::back_inserter(inputs), "{},{},{}.", one.first, one.second, one.calls);
    if (const auto known = step_details_.find(inputs); known != step_details_.end())
      return known->second;
    Detail detail;
    detail.dispatch = dispatch_.of({.op = name,
                                    .redispatch = step.redispatch,
                                    .boxed = step.op.empty(),
                                    .ops = ops,
                                    .arguments = arguments,
                                    .ops_left_out = left_out,
                                    .unboxed = unboxed,
                                    .by_threads = by_threads},
                                   detail.origins);
    Shared<Detail> shared = shared_.detail(std::move(detail));
    if (step_details_.size() < kMaxStepDetails) step_details_.emplace(std::move(inputs), shared);
    return shared;
  }

  Shared<std::string> symbol_of(std::uint32_t function) {
    Shared<std::string>& symbol = symbols_[function];
    if (!symbol && !trace_.functions[function].symbol.empty())
      symbol = trace_.functions[function].symbol;
    return symbol;
  }

  // Finds the steps that called a kernel unboxed.
  void find_unboxed() {
    calls_unboxed_.resize(trace_.paths.size());
    // For each path: the path itself, or the nearest one above it that doesn't hand an op on.
    std::vector<std::uint32_t> steps(trace_.paths.size(), kNone);
    for (std::uint32_t i = 0; i < trace_.paths.size(); ++i) {
      const TracePath& path = trace_.paths[i];
      const std::uint32_t above = path.parent == kNone ? kNone : steps[path.parent];
      const bool is_function = path.kind == PathKind::function && path.what != kNone;
      const bool hands_on = is_function && functions_.forwards_op(path.what);
      steps[i] = hands_on ? above : i;
      if (above != kNone && is_function && functions_[path.what].name.starts_with(kUnboxedKernel))
        calls_unboxed_[above] = 1;
    }
  }

  // Makes a frame as long as what it calls. A function without a probe is only known to run when
  // one below it is called, which may be after Python functions that it calls began; the end of a
  // native function may be seen only after that of its caller.
  static void cover_calls(const Frame& frame, FrameTime& time) {
    std::uint64_t inside = 0, longest = 0;
    for (const Frame& called : frame.children) {
      if (!called.time || !called.time->range || is_backward(called) ||
          called.layer == Layer::device || called.detail->threads > 1)
        continue;
      inside += called.time->total;
      longest = std::max(longest, called.time->range->longest);
    }
    if (inside <= time.total) return;
    time.total = inside;
    if (time.range) time.range->longest = std::max(time.range->longest, longest);
  }

  FrameTime time_of(const ReportPath& path) const {
    std::uint64_t total = trace_.paths[path.traced].total_time;
    std::uint64_t shortest = trace_.paths[path.traced].shortest_time;
    std::uint64_t longest = trace_.paths[path.traced].longest_time;
    for (const std::uint32_t traced : path.also) {
      const TracePath& one = trace_.paths[traced];
      total += one.total_time;
      if (one.longest_time != 0) shortest = std::min(shortest, one.shortest_time);
      longest = std::max(longest, one.longest_time);
    }
    return {.total = total, .range = FrameTime::Range{shortest, longest}};
  }

  // Returns the op for a kernel or autograd frame: that of the dispatcher step or wrapper that
  // called it.
  std::optional<std::string> inherited_op(const Frame& frame, const Frame& parent) const {
    if (!parent.op || (frame.layer != Layer::kernel && frame.layer != Layer::autograd))
      return std::nullopt;
    if (dispatcher_step(parent.name) || is_wrapper(parent.name)) return parent.op;
    return std::nullopt;
  }

  // Sorts the children of a frame in the order of the trace's paths, which is the order of first
  // calls. On entry, the launched kernels and failed calls come first, followed by the called
  // frames in reverse order.
  static void put_in_order(std::vector<Frame>& children, const std::vector<std::uint32_t>& launched,
                           std::vector<std::uint32_t>& called) {
    const auto first_called =
        children.begin() + static_cast<std::ptrdiff_t>(children.size() - called.size());
    std::reverse(first_called, children.end());
    if (launched.empty() || called.empty()) return;
    std::reverse(called.begin(), called.end());
    std::vector<std::pair<std::uint32_t, std::size_t>> order;
    order.reserve(launched.size() + called.size());
    for (const std::uint32_t path : launched) order.emplace_back(path, order.size());
    for (const std::uint32_t path : called) order.emplace_back(path, order.size());
    std::ranges::stable_sort(order, {}, &std::pair<std::uint32_t, std::size_t>::first);
    std::vector<Frame> ordered;
    ordered.reserve(children.size());
    for (const auto& [path, at] : order) ordered.push_back(std::move(children[at]));
    children = std::move(ordered);
  }

  const Trace& trace_;
  const Index* index_;
  TracedFunctions& functions_;
  const SourceLink& python_links_;
  const bool times_;
  FrameProcesses* const processes_;
  const std::vector<ReportPath>& paths_;
  const std::string torch_folder_;
  const OpRecords& records_;
  const DispatchDetails dispatch_;
  // The details of dispatcher steps, by everything that they are made from.
  std::unordered_map<std::string, Shared<Detail>> step_details_;
  std::optional<CallLines> call_lines_;
  LibraryCalls library_calls_;
  SharedParts shared_;
  std::vector<Shared<std::string>> symbols_;  // By function of the trace.
  std::vector<std::uint8_t> calls_unboxed_;   // By path of the trace.
};

}  // namespace

std::vector<Frame> build_frames(const FrameSources& from, const ReportPathSet& paths) {
  return FrameBuilder(from, paths.paths()).make_frames();
}

}  // namespace optrace
