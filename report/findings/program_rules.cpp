#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "report/compiled/compilations.h"
#include "report/findings/rule_functions.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/walk_frames.h"

// The rules about what runs around the ops: compiled functions, autograd's graph, processes.

namespace optrace {
namespace {

// The number of calls of ops with a graph below which the graph is no cost.
constexpr std::uint64_t kLeastGraphOps = 10;

// torch/utils/data/_utils.
constexpr std::string_view kWorker = "torch.utils.data._utils.worker._worker_loop";
constexpr std::string_view kFetch = "torch.utils.data._utils.fetch.";

// Returns the time in autograd's kernels themselves, which add nodes to the graph.
std::uint64_t autograd_time(const Frame& frame) {
  std::uint64_t time = 0;
  walk_frames(frame.children, 0, [&](const Frame& one, int) {
    if (one.layer == Layer::autograd) time += own_time(one);
    return 0;
  });
  return time;
}

std::string after_colon(const std::string& text) {
  return text.empty() ? "" : ": " + printable(text);
}

// Returns PyTorch's reason for a break, which is at the definition of the frame that shows it, or
// at the line that calls it, or inside of it.
std::string reason_of_break(const FrameInContext& at, bool at_definition) {
  if (!at.frame().source) return {};
  const FrameSource& source = *at.frame().source;
  if (at_definition)
    return after_colon(graph_break_reason(at.facts.compilations, source.file, source.line));
  std::string reason;
  if (at.stack.size() >= 2 && source.call_line)
    if (const auto& caller = at.stack[at.stack.size() - 2]->source)
      reason = graph_break_reason(at.facts.compilations, caller->file, *source.call_line);
  if (reason.empty()) reason = reason_not_compiled(at.facts.compilations, source.file, source.line);
  return after_colon(reason);
}

}  // namespace

Found graph_break(const FrameInContext& at) {
  const auto found = at.facts.breaks.at.find(&at.frame());
  if (found == at.facts.breaks.at.end()) return std::nullopt;
  const Frame& frame = at.frame();
  // A function that continues after a break is defined at the line of the break.
  if (is_resumed(frame))
    return RuleMatch{"breaks the graph of torch.compile here" + reason_of_break(at, true),
                     found->second};
  const std::string reason = reason_of_break(at, false);
  // Without one, PyTorch found nothing to compile.
  if (reason.empty() && !at.facts.compilations.empty()) return std::nullopt;
  return RuleMatch{fmt::format("breaks the graph of torch.compile: `{}` runs uncompiled{}",
                               frame_name(frame), reason),
                   found->second};
}

Found recompile(const FrameInContext& at) {
  if (!is_compiled_call(at.frame())) return std::nullopt;
  const Compilations compilations = compilations_of(at.frame());
  const std::uint64_t first = compilations.functions.size() * at.processes;
  if (compilations.functions.empty() || compilations.count <= first) return std::nullopt;
  const std::string& function = *compilations.functions.begin();
  const std::string guard =
      failed_guard(at.facts.compilations, function.substr(function.rfind('.') + 1));
  return RuleMatch{fmt::format("makes torch.compile compile `{}` again{}", printable(function),
                               after_colon(guard)),
                   compilations.count - first, compilations.time};
}

Found unused_graph(const FrameInContext& at) {
  // At the first frame below the user frame.
  if (at.user_frame + 2 != at.stack.size()) return std::nullopt;
  const auto found = at.facts.unused_graphs.find(&at.frame());
  if (found == at.facts.unused_graphs.end() || found->second < kLeastGraphOps * at.processes)
    return std::nullopt;
  return RuleMatch{"records autograd graphs that no backward pass uses", at.frame().calls,
                   autograd_time(at.frame())};
}

Found unread_gradient(const FrameInContext& at) {
  const auto found = at.facts.unread_gradients.find(&at.frame());
  if (found == at.facts.unread_gradients.end()) return std::nullopt;
  // What the gradients cost is a part of the derivatives' time, which is not known.
  return RuleMatch{fmt::format("computes gradients that nothing reads ({})", found->second.shapes),
                   found->second.count, 0};
}

Found idle_worker(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (frame.name != kWorker) return std::nullopt;
  // A merged report lists the processes that took a path, unless all did.
  const std::vector<std::uint64_t>& workers = frame.detail->processes.processes;
  if (workers.empty()) return std::nullopt;
  std::set<std::uint64_t> busy;
  for (const Frame& child : frame.children) {
    if (!child.name.starts_with(kFetch)) continue;
    const std::vector<std::uint64_t>& fetching = child.detail->processes.processes;
    if (fetching.empty()) return std::nullopt;
    busy.insert(fetching.begin(), fetching.end());
  }
  // Without any, the workers' fetching may be what a trace can't see: a dataset without tensors.
  if (busy.empty() || busy.size() >= workers.size()) return std::nullopt;
  // The time of a worker is that of waiting.
  return RuleMatch{.what = "starts a DataLoader worker that fetches nothing",
                   .calls = workers.size() - busy.size(),
                   .cost = 0,
                   .of_job = true};
}

}  // namespace optrace
