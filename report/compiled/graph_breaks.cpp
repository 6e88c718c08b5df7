#include "report/compiled/graph_breaks.h"

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "platform/text/glob.h"
#include "pytorch/functions/layers.h"
#include "report/compiled/triton_launches.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

// Frames that torch.compile puts around a compiled function, and around functions that Dynamo
// leaves alone: graphs, and functions under torch.compiler.disable. torch/_dynamo/eval_frame.py.
constexpr std::string_view kCompiled =
    "torch._dynamo.eval_frame._TorchDynamoContext.__call__.<locals>.";
constexpr std::string_view kLeftAlone = "torch._dynamo.eval_frame.DisableContext.";
constexpr std::string_view kDynamo = "torch._dynamo.";
// A function that continues after a break. torch/_dynamo/resume_execution.py.
constexpr std::string_view kResumed = "torch_dynamo_resume_in_";
// Passes an interpreter frame to Dynamo, which does not happen in a graph. torch/csrc/dynamo.
constexpr std::string_view kFrameHook = "dynamo_*custom_eval_frame*";
// Checks a compiled function's guards, which may call Python functions.
// torch/csrc/dynamo/guards.cpp.
constexpr std::string_view kGuardCheck = "torch::dynamo::*::check*";
// Compiled code calls it to make a tensor of a number that a graph takes. torch/__init__.py.
constexpr std::string_view kNumberToTensor = "torch._as_tensor_fullprec";
// The file of a graph's code. torch/fx/graph_module.py.
constexpr std::string_view kGraphCode = "<eval_with_key>";

/// A frame below a compiled function.
struct CompiledNode {
  static constexpr std::size_t kNoParent = std::numeric_limits<std::size_t>::max();

  const Frame* frame;
  std::size_t parent;       // Index of an earlier node.
  bool graph = false;       // Part of a graph.
  bool left_alone = false;  // The Python function around it is kLeftAlone.
  bool runs_ops = false;    // It or a frame below runs ops outside of graphs.
  bool resumed = false;     // It or a frame below continues after a break.
  bool counted = false;     // Covered by a break counted here, above or below.
};

/// Returns true for code of a graph, and for code that a backend generated from one.
bool is_graph_code(const Frame& frame, bool left_alone) {
  if (frame.name.starts_with("torch._functorch.") || frame.name.starts_with("torch._inductor."))
    return true;
  if (!frame.source) return false;
  // A backend from another package: paths of PyTorch's own files are relative to its folder.
  return frame.source->file.starts_with(kGraphCode) ||
         (left_alone && frame.source->file.find("/site-packages/") != std::string::npos);
}

/// Returns true if the ops below a frame are not of the compiled function: of a compilation, which
/// tries ops out, and of what Dynamo does around compiled code.
bool is_of_dynamo(const Frame& frame) {
  return frame.layer == Layer::compiler || frame.name == kNumberToTensor ||
         matches_name_glob(frame.name, kGuardCheck);
}

/// Lists the frames of a tree, without recursion: it may be deeper than the call stack allows.
/// Nodes are in call order, parents first.
std::vector<CompiledNode> nodes_below(const Frame& compiled) {
  std::vector<CompiledNode> nodes;
  std::vector<std::pair<const Frame*, std::size_t>> pending{{&compiled, CompiledNode::kNoParent}};
  while (!pending.empty()) {
    const auto [frame, parent] = pending.back();
    pending.pop_back();
    CompiledNode node{.frame = frame, .parent = parent};
    if (parent != CompiledNode::kNoParent) {
      node.graph = nodes[parent].graph;
      node.left_alone = nodes[parent].left_alone;
    }
    if (is_of_dynamo(*frame)) continue;
    if (frame->layer == Layer::python) {
      node.graph = node.graph || is_graph_code(*frame, node.left_alone);
      node.left_alone = frame->name.starts_with(kLeftAlone);
      node.resumed = frame->name.find(kResumed) != std::string::npos;
    } else if (matches_name_glob(frame->name, kFrameHook)) {
      node.graph = false;
    }
    node.runs_ops = !node.graph && is_op_call(*frame);
    for (auto child = frame->children.rbegin(); child != frame->children.rend(); ++child)
      pending.emplace_back(&*child, nodes.size());
    nodes.push_back(node);
  }
  return nodes;
}

void count_breaks(const Frame& compiled, GraphBreaks& found) {
  std::vector<CompiledNode> nodes = nodes_below(compiled);
  for (std::size_t i = nodes.size(); i-- > 1;) {
    CompiledNode& parent = nodes[nodes[i].parent];
    parent.runs_ops = parent.runs_ops || nodes[i].runs_ops;
    parent.resumed = parent.resumed || nodes[i].resumed;
  }
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    CompiledNode& node = nodes[i];
    node.counted = nodes[node.parent].counted;
    const Frame& frame = *node.frame;
    if (frame.layer != Layer::python || frame.name.starts_with(kDynamo)) continue;
    if (frame.name.find(kResumed) != std::string::npos) {
      found.at[&frame] += frame.calls;
    } else if (node.runs_ops && !node.resumed && !node.counted && !node.graph &&
               !is_module_call(frame.name)) {
      node.counted = true;
      found.at[&frame] += frame.calls;
    }
    // The frames between a break and its continuation are covered by the continuation's count.
    node.counted = node.counted || node.resumed;
  }
}

void add_compilation(const Frame& frame, Compilations& result) {
  result.count += frame.calls;
  result.time += total_time(frame);
}

}  // namespace

GraphBreaks find_graph_breaks(const Report& report) {
  GraphBreaks found;
  std::vector<const Frame*> pending;
  pending.reserve(report.roots.size());
  for (const Frame& root : report.roots) pending.push_back(&root);
  while (!pending.empty()) {
    const Frame& frame = *pending.back();
    pending.pop_back();
    if (is_compiled_call(frame)) {
      found.compiled = true;
      count_breaks(frame, found);
      continue;
    }
    for (const Frame& child : frame.children) pending.push_back(&child);
  }
  return found;
}

bool is_compiled_call(const Frame& frame) {
  return frame.layer == Layer::python && frame.name.starts_with(kCompiled);
}

Compilations compilations_of(const Frame& compiled) {
  Compilations result;
  std::vector<const Frame*> pending;
  const auto add = [&](const Frame& frame) {
    for (const Frame& child : frame.children) pending.push_back(&child);
  };
  add(compiled);
  while (!pending.empty()) {
    const Frame& frame = *pending.back();
    pending.pop_back();
    if (frame.layer == Layer::compiler && frame.name.starts_with(kDynamo))
      add_compilation(frame, result);
    else if (frame.layer != Layer::python)
      add(frame);
    else if (!frame.name.starts_with(kDynamo))
      result.functions.insert(frame_name(frame));
  }
  return result;
}

bool is_resumed(const Frame& frame) {
  return frame.layer == Layer::python && frame.name.find(kResumed) != std::string::npos;
}

std::string function_before_break(const Frame& resumed) {
  return function_before_break(frame_name(resumed));
}

std::string function_before_break(std::string_view name) {
  const std::size_t begin = name.find(kResumed);
  if (begin == std::string_view::npos) return {};
  name.remove_prefix(begin + kResumed.size());
  return std::string(name.substr(0, name.rfind("_at_")));
}

bool is_setup(const Frame& frame) {
  return frame.layer == Layer::compiler ||
         (frame.layer == Layer::python && (is_torch_module(frame.name) || is_benchmark(frame)));
}

}  // namespace optrace
