#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "platform/text/glob.h"
#include "platform/text/printable_text.h"
#include "pytorch/names/devices.h"
#include "pytorch/names/dtypes.h"
#include "report/details/decisions.h"
#include "report/findings/rule_functions.h"
#include "report/findings/slow_convolutions.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

// The rules about ops and their kernels.

namespace optrace {
namespace {

// Ops and kernels that stand in where no fast kernel fits.
struct SlowKernel {
  std::string_view name;
  std::string_view what;
};
constexpr auto kSlowKernels = std::to_array<SlowKernel>({
    {"aten::_scaled_dot_product_attention_math", "computes attention without a fused kernel"},
    {"at::native::cpu_fallback", "runs an op on the CPU because the device has no kernel for it"},
    {"at::functorch::batchedTensorForLoopFallback",
     "makes vmap run an op once for each element of the batch"},
});

// Launching an op takes longer than computing this many elements.
constexpr std::uint64_t kTinyElements = 256;

bool is_tiny(const TensorFacts* tensor) {
  return tensor->shape && elements_of(*tensor) <= kTinyElements;
}

// Functions of CUDA's libraries that queue kernels and do not wait for them.
constexpr auto kLaunches = std::to_array<std::string_view>({
    "cudaLaunchKernel*",
    "cuLaunchKernel*",
    "cublas*gemm*",
    "cublas*Gemm*",
    "cublasLtMatmul",
    "cudnnBackendExecute",
});

bool is_launch(const Frame& frame) {
  return frame.layer == Layer::library &&
         std::ranges::any_of(kLaunches, [&](std::string_view pattern) {
           return matches_name_glob(frame.name, pattern);
         });
}

// Returns the time that devices took for one call's kernels on average; 0 if it is not known of
// each call.
std::uint64_t device_time_of_call(const Frame& launch) {
  std::uint64_t kernels = 0;
  std::uint64_t time = 0;
  for (const Frame& child : launch.children) {
    if (child.layer != Layer::device) continue;
    kernels += child.calls;
    time += own_time(child);
  }
  const bool complete = kernels >= launch.calls && launch.detail->device_work_left_out == 0;
  return complete && launch.calls != 0 ? time / launch.calls : 0;
}

// Optimizers that have a fused implementation on the CPU. torch/optim of 2.6.
constexpr auto kFusedOnCpu = std::to_array<std::string_view>({"adam", "adamw", "sgd", "adagrad"});
constexpr std::string_view kForLoop = "._single_tensor_";

// Returns the device of the parameters that an optimizer's step updates one after another. Empty if
// there is one parameter only, or if the step would not allow another implementation.
std::string device_of_parameters(const Frame& step) {
  std::string device;
  bool other_works = true;
  walk_frames(step.children, 0, [&](const Frame& frame, int) {
    if (!is_op_call(frame)) return 0;
    // The step is to be differentiated.
    if (frame.detail->dispatch->grad_mode == true) other_works = false;
    for (const OpCalls& calls : op_calls(frame))
      for (const TensorFacts* const tensor : tensors_in(calls)) {
        other_works = other_works && !is_sparse(*tensor);
        if (tensor->requires_grad && is_floating_point(tensor->dtype) &&
            frame.calls >= 2 * step.calls)
          device = tensor->device;
      }
    return 0;
  });
  return other_works ? device : std::string();
}

bool in_optimizer(const FrameInContext& at) {
  return std::ranges::any_of(at.below_user_frame(), [](const Frame* frame) {
    return frame->layer == Layer::python && frame->name.starts_with("torch.optim.");
  });
}

const Frame* innermost_op(const FrameInContext& at) {
  const auto op = std::find_if(at.stack.rbegin(), at.stack.rend(),
                               [](const Frame* frame) { return is_op_call(*frame); });
  return op == at.stack.rend() ? nullptr : *op;
}

// Writes to the places that indices name, one after another in a fixed order. CUDA needs it for
// accumulate=True, and for all writes in deterministic mode. aten/src/ATen/native/cuda/Indexing.cu.
constexpr std::string_view kSortingKernel = "index_put_with_sort_kernel";

Found sorted_write(const FrameInContext& at) {
  const Frame* const op = innermost_op(at);
  if (op == nullptr || has_argument(*op, "accumulate", true)) return std::nullopt;
  return RuleMatch{"writes to indices in sorted order, because it must be deterministic",
                   at.frame().calls};
}

// Ops whose result depends on numbers only.
constexpr auto kConstants = std::to_array<std::string_view>(
    {"aten::arange", "aten::arange.start", "aten::arange.start_step", "aten::eye", "aten::eye.m",
     "aten::linspace", "aten::logspace", "aten::tril_indices", "aten::triu_indices",
     "aten::hann_window", "aten::hamming_window", "aten::bartlett_window", "aten::blackman_window",
     "aten::kaiser_window"});

bool only_on_host(const Frame& op) {
  return std::ranges::all_of(op_calls(op), [](const OpCalls& calls) {
    return std::ranges::all_of(tensors_in(calls),
                               [](const TensorFacts* tensor) { return is_host(tensor->device); });
  });
}

// Code that torch.compile generates writes to its buffers without ops.
bool in_compiled_code(const FrameInContext& at) {
  return std::ranges::any_of(at.stack, [](const Frame* frame) { return is_compiled_call(*frame); });
}

// Returns the calls with the most frequent arguments. An op without records has none.
std::uint64_t most_equal_calls(const Frame& frame) {
  std::uint64_t most = 0;
  for (const OpCalls& kind : op_calls(frame))
    if (kind.arguments) most = std::max(most, kind.calls);
  return most;
}

}  // namespace

Found slow_kernel(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (frame.name.find(kSortingKernel) != std::string::npos) return sorted_write(at);
  const std::string_view name =
      is_op_call(frame) ? std::string_view(frame.op ? *frame.op : frame.name) : frame.name;
  const auto* const slow = std::ranges::find(kSlowKernels, name, &SlowKernel::name);
  if (slow == kSlowKernels.end()) return slow_convolution(at);
  const std::string which = frame.op.value_or(std::string(name));
  RuleMatch match{fmt::format("{} ({})", slow->what, printable(which)), frame.calls};
  if (at.stack.size() > 1) match.reason = decision_note(frame, at.stack[at.stack.size() - 2]);
  return match;
}

Found tiny_ops(const FrameInContext& at) {
  if (at.in_op || !is_op_call(at.frame())) return std::nullopt;
  // A library's loop over parameters is not the program's.
  if (in_optimizer(at)) return std::nullopt;
  return describe_calls(at.frame(), [](const OpCalls& calls) -> std::string {
    const std::vector<const TensorFacts*> tensors = tensors_in(calls);
    if (tensors.empty() || !std::ranges::all_of(tensors, is_tiny)) return {};
    return fmt::format("calls ops on tensors of at most {} elements", kTinyElements);
  });
}

Found launch_bound(const FrameInContext& at) {
  const Frame& frame = at.frame();
  // Times of the emulated device are not those of a GPU.
  if (at.facts.dry_run || !is_launch(frame) || in_optimizer(at)) return std::nullopt;
  const std::uint64_t on_device = device_time_of_call(frame);
  // A launch waits while the device's queue is full, and the end of a call is recorded late: only
  // the shortest call is sure to show how long the host needs.
  const std::uint64_t on_host = frame.time && frame.time->range ? frame.time->range->shortest : 0;
  if (on_device == 0 || on_device >= on_host) return std::nullopt;
  const Frame* const op = innermost_op(at);
  return RuleMatch{.what = "launches kernels that end before the host could launch the next",
                   .calls = frame.calls,
                   .devices = op == nullptr ? on_unknown_device(frame.calls)
                                            : share_by_device(*op, frame.calls)};
}

Found for_loop_optimizer(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (frame.layer != Layer::python || !frame.name.starts_with("torch.optim.")) return std::nullopt;
  const std::size_t kind = frame.name.find(kForLoop);
  if (kind == std::string::npos) return std::nullopt;
  const std::string optimizer = frame.name.substr(kind + kForLoop.size());
  const std::string device = device_of_parameters(frame);
  const bool on_host = is_host(device);
  if (on_host ? std::ranges::find(kFusedOnCpu, optimizer) == kFusedOnCpu.end() : !is_cuda(device))
    return std::nullopt;
  return RuleMatch{
      fmt::format("updates parameters on {} one after another ({}, which also has {})",
                  printable(device), printable(optimizer), on_host ? "fused=True" : "foreach=True"),
      frame.calls};
}

Found repeated_op(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (at.in_op || !is_op_call(frame) || !frame.op || in_optimizer(at)) return std::nullopt;
  if (std::ranges::find(kConstants, *frame.op) != kConstants.end())
    return RuleMatch{fmt::format("computes the same tensor again ({})", printable(*frame.op)),
                     most_equal_calls(frame)};
  const std::uint64_t calls = frame.detail->dispatch->repeated_calls;
  // Kernels that no op launches may write to any tensor on a device.
  if (calls == 0 || (at.facts.unseen_writes && !only_on_host(frame)) || in_compiled_code(at))
    return std::nullopt;
  return RuleMatch{.what = fmt::format("calls an op again on the same unchanged input ({})",
                                       printable(*frame.op)),
                   .calls = calls,
                   .cost = frame.calls == 0 ? 0 : total_time(frame) / frame.calls * calls,
                   .devices = share_by_device(frame, calls)};
}

}  // namespace optrace
