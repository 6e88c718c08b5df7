#include "report/summary/op_usage.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>

#include "platform/text/joined.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/user_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// Adds a tensor to a list of inputs: its shape, after its dtype if that of the input before
// differs.
void add_tensor(const TensorFacts& tensor, std::string& dtype, std::string& text) {
  if (!text.empty()) text += ", ";
  if (tensor.dtype != dtype) {
    text += tensor.dtype + ' ';
    dtype = tensor.dtype;
  }
  if (!tensor.shape)
    text += '?';
  else if (tensor.shape->empty())
    text += "scalar";
  else
    text += joined(*tensor.shape, "×");
}

// Returns the tensors among the arguments of an op's calls: `float32 8×64×128, 128`.
std::string inputs_of(const OpCalls& calls) {
  std::string text, dtype;
  for (const TensorFacts* const tensor : tensors_in(calls)) add_tensor(*tensor, dtype, text);
  return text;
}

void add_inputs(const Frame& frame, OpUsage& usage) {
  for (const OpCalls& kind : op_calls(frame))
    if (const std::string inputs = inputs_of(kind); !inputs.empty())
      usage.inputs[inputs] += kind.calls;
}

}  // namespace

std::vector<OpUsage> op_usage(const Report& report) {
  // A call of an op, or an autograd node: its ops run later than those around it.
  struct Open {
    OpUsage* usage;      // Null for a node.
    bool inside_itself;  // True inside another call of the same op.
  };
  std::map<std::string, OpUsage> ops;
  std::vector<Open> around;                          // The current frame, outermost first.
  std::vector<std::set<const OpUsage*>> running(1);  // The ops that run, for each node around.
  const auto close = [&] {
    const Open ended = around.back();
    around.pop_back();
    if (ended.usage == nullptr)
      running.pop_back();
    else if (!ended.inside_itself)
      running.back().erase(ended.usage);
  };
  struct Above {
    std::size_t open_around = 0;
    WorkKind kind = WorkKind::none;  // Of the frame's function in the op around it.
    Work* work = nullptr;            // Of that function; null outside of it.
  };
  walk_frames(report.roots, Above(), [&](const Frame& frame, const Above& above) {
    while (around.size() > above.open_around) close();
    if (is_backward(frame)) {
      around.push_back({nullptr, false});
      running.emplace_back();
    }
    OpUsage* const caller = around.empty() ? nullptr : around.back().usage;
    const std::string op = frame.op.value_or("");
    if (is_generated_kernel(frame) && caller == nullptr) {
      OpUsage& usage = ops[frame_name(frame)];
      usage.calls += frame.calls;
      usage.own += total_time(frame);
      usage.total += total_time(frame);
      return Above{around.size()};
    }
    if (op.empty() || !is_op_call(frame)) {
      if (caller == nullptr || is_backward(frame)) return Above{around.size()};
      const WorkKind kind = work_kind(frame, above.kind);
      Work* work = above.work;
      if (kind != above.kind && kind > WorkKind::aside) {
        work = &caller->work[name_of_work(frame)];
        work->kind = kind;
        work->calls += frame.calls;
      }
      if (kind == WorkKind::aside) work = nullptr;
      if (work != nullptr) work->time += own_time(frame);
      return Above{around.size(), kind, work};
    }
    const std::uint64_t took = total_time(frame);
    OpUsage& usage = ops[op];
    usage.calls += frame.calls;
    usage.own += took;
    if (caller != nullptr) caller->own -= std::min(caller->own, took);
    const bool is_outermost = running.back().insert(&usage).second;
    if (is_outermost) usage.total += took;
    add_inputs(frame, usage);
    around.push_back({&usage, !is_outermost});
    return Above{around.size()};
  });
  std::vector<OpUsage> all;
  all.reserve(ops.size());
  for (auto& [op, usage] : ops) {
    usage.op = op;
    all.push_back(std::move(usage));
  }
  std::ranges::stable_sort(all, std::greater{}, &OpUsage::own);
  return all;
}

std::string most_of(const std::map<std::string, std::uint64_t>& counts) {
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
  return most == counts.end() ? "" : most->first;
}

}  // namespace optrace
