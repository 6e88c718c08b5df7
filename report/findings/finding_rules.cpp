#include "report/findings/finding_rules.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "platform/glob.h"
#include "platform/printable_text.h"
#include "report/findings/device_copies.h"
#include "report/findings/op_tensors.h"
#include "report/model/frame_name.h"
#include "report/model/json_fields.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Json = nlohmann::json;
using Found = std::optional<Sighting>;

bool is_call_of(const Frame& frame, std::string_view op) {
  return is_op_call(frame) && frame.op && *frame.op == op;
}

bool is_host(const std::string& device) {
  return device == "cpu";
}

// Returns the calls for which describe() returns a text, with the text of the first of them.
template <class Describe>
Found describe_calls(const Frame& frame, const Describe& describe) {
  Found found;
  for (const OpCalls& call : op_calls(frame)) {
    const std::string what = describe(call);
    if (what.empty()) continue;
    if (!found) found = Sighting{what, 0};
    found->calls += call.calls;
  }
  return found;
}

Found implicit_copy(const FrameInContext& at) {
  if (!is_call_of(at.frame(), "aten::copy_") || implicit_copies(at.way) == 0) return std::nullopt;
  return describe_calls(at.frame(), [](const OpCalls& call) -> std::string {
    const OpTensor* const to = tensor_named(call, "self");
    const OpTensor* const from = tensor_named(call, "src");
    if (to == nullptr || from == nullptr || to->device == from->device) return {};
    return fmt::format("copies a tensor from {} to {} without being asked to",
                       printable(from->device), printable(to->device));
  });
}

// Ops for which the host needs a value that the device computes, and the argument with it.
struct WaitingOp {
  std::string_view op;
  std::string_view argument;
  std::string_view what;  // {} is the device.
};
constexpr auto kWaitingOps = std::to_array<WaitingOp>({
    {"aten::_local_scalar_dense", "self", "reads a number from a tensor on {}"},
    {"aten::nonzero", "self", "asks how many elements of a tensor on {} are not zero"},
});

// Returns true below Module.to(), Module.cpu() and the like, which convert each parameter once.
bool converts_module(const FrameInContext& at) {
  return std::ranges::any_of(at.below_own(), [](const Frame* frame) {
    return frame->name == "torch.nn.modules.module.Module._apply";
  });
}

Found waiting_copy(const Frame& frame) {
  const Json& detail = frame.detail;
  const auto arguments = detail.find("arguments");
  const bool waits = arguments != detail.end() && arguments->is_array() &&
                     std::ranges::any_of(*arguments, [](const Json& argument) {
                       return text_at(argument, "name") == "non_blocking" &&
                              argument.contains("value") && argument["value"] == false;
                     });
  if (!waits) return std::nullopt;
  return describe_calls(frame, [](const OpCalls& call) -> std::string {
    const OpTensor* const to = tensor_named(call, "self");
    const OpTensor* const from = tensor_named(call, "src");
    if (to == nullptr || from == nullptr || !is_host(to->device) || is_host(from->device))
      return {};
    return fmt::format("copies a tensor from {} to {}", printable(from->device), to->device);
  });
}

bool is_synchronisation(const Frame& frame) {
  return frame.layer == Layer::library && (matches_name_glob(frame.name, "cuda*Synchronize") ||
                                           matches_name_glob(frame.name, "cu*Synchronize"));
}

Found host_wait(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (is_call_of(frame, "aten::copy_"))
    return converts_module(at) ? std::nullopt : waiting_copy(frame);
  for (const WaitingOp& waiting : kWaitingOps)
    if (is_call_of(frame, waiting.op))
      return describe_calls(frame, [&](const OpCalls& call) -> std::string {
        const OpTensor* const read = tensor_named(call, waiting.argument);
        if (read == nullptr || read->device.empty() || is_host(read->device)) return {};
        return fmt::format(fmt::runtime(waiting.what), printable(read->device));
      });
  // Ops that wait are covered above, or wait for copies to the device.
  if (at.in_op || !is_synchronisation(frame)) return std::nullopt;
  return Sighting{fmt::format("waits for the device ({})", printable(frame.name)), frame.calls};
}

std::string name_of(MemoryFormat format) {
  return format == MemoryFormat::contiguous ? "contiguous" : "channels_last";
}

Found format_copy(const Frame& frame) {
  return describe_calls(frame, [](const OpCalls& call) -> std::string {
    const OpTensor* const to = tensor_named(call, "self");
    const OpTensor* const from = tensor_named(call, "src");
    if (to == nullptr || from == nullptr || to->device != from->device || to->dtype != from->dtype)
      return {};
    const MemoryFormat before = memory_format(*from), after = memory_format(*to);
    if (before == MemoryFormat::other || after == MemoryFormat::other || before == after) return {};
    return fmt::format("copies a tensor from the {} to the {} memory format", name_of(before),
                       name_of(after));
  });
}

// Returns true below Tensor.to(), with which a program selects the memory format of its input.
bool selects_format(const FrameInContext& at) {
  return std::ranges::any_of(at.below_own(), [](const Frame* frame) {
    return text_at(frame->detail, "python_name") == "torch.Tensor.to";
  });
}

Found layout_copy(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (!is_call_of(frame, "aten::copy_") || converts_module(at) || selects_format(at))
    return std::nullopt;
  return format_copy(frame);
}

// Ops and kernels that stand in where no fast kernel fits.
struct SlowKernel {
  std::string_view name;
  std::string_view what;
};
constexpr auto kSlowKernels = std::to_array<SlowKernel>({
    {"aten::_slow_conv2d_forward", "runs a convolution without oneDNN or cuDNN"},
    {"aten::slow_conv3d_forward", "runs a convolution without oneDNN or cuDNN"},
    {"aten::slow_conv_dilated2d", "runs a convolution without oneDNN or cuDNN"},
    {"aten::slow_conv_dilated3d", "runs a convolution without oneDNN or cuDNN"},
    {"aten::slow_conv_transpose2d", "runs a convolution without oneDNN or cuDNN"},
    {"aten::slow_conv_transpose3d", "runs a convolution without oneDNN or cuDNN"},
    {"aten::_scaled_dot_product_attention_math", "computes attention without a fused kernel"},
    {"at::native::cpu_fallback", "runs an op on the CPU because the device has no kernel for it"},
    {"at::functorch::batchedTensorForLoopFallback",
     "makes vmap run an op once for each element of the batch"},
});

Found slow_kernel(const FrameInContext& at) {
  const Frame& frame = at.frame();
  const std::string_view name =
      is_op_call(frame) ? std::string_view(frame.op ? *frame.op : frame.name) : frame.name;
  const auto* const slow = std::ranges::find(kSlowKernels, name, &SlowKernel::name);
  if (slow == kSlowKernels.end()) return std::nullopt;
  const std::string which = frame.op.value_or(std::string(name));
  return Sighting{fmt::format("{} ({})", slow->what, printable(which)), frame.calls};
}

// Launching an op takes longer than computing this many elements.
constexpr std::uint64_t kTinyElements = 256;

bool is_tiny(const OpTensor& tensor) {
  return tensor.known_shape && elements_of(tensor) <= kTinyElements;
}

Found tiny_ops(const FrameInContext& at) {
  if (at.in_op || !is_op_call(at.frame())) return std::nullopt;
  // A library's loop over parameters is not the program's.
  const bool in_optimizer = std::ranges::any_of(at.below_own(), [](const Frame* frame) {
    return frame->layer == Layer::python && frame->name.starts_with("torch.optim.");
  });
  if (in_optimizer) return std::nullopt;
  return describe_calls(at.frame(), [](const OpCalls& call) -> std::string {
    if (call.tensors.empty() || !std::ranges::all_of(call.tensors, is_tiny)) return {};
    return fmt::format("calls ops on tensors of at most {} elements", kTinyElements);
  });
}

Found graph_break(const FrameInContext& at) {
  const auto found = at.breaks.at.find(&at.frame());
  if (found == at.breaks.at.end()) return std::nullopt;
  return Sighting{
      fmt::format("breaks the graph of torch.compile (seen at {})", frame_name(at.frame())),
      found->second};
}

// Optimizers that have a fused implementation on the CPU. torch/optim of 2.6.
constexpr auto kFusedOnCpu = std::to_array<std::string_view>({"adam", "adamw", "sgd", "adagrad"});
constexpr auto kFloating =
    std::to_array<std::string_view>({"float32", "float64", "float16", "bfloat16"});
constexpr std::string_view kForLoop = "._single_tensor_";

// Returns the device of the parameters that an optimizer's step updates one after another. Empty if
// there is one parameter only, or if the step would not allow another implementation.
std::string device_of_parameters(const Frame& step) {
  std::string device;
  bool other_works = true;
  walk_frames(step.children, 0, [&](const Frame& frame, int) {
    if (!is_op_call(frame)) return 0;
    const auto gradient = frame.detail.find("grad_mode");
    // The step is to be differentiated.
    if (gradient != frame.detail.end() && *gradient == true) other_works = false;
    for (const OpCalls& call : op_calls(frame))
      for (const OpTensor& tensor : call.tensors) {
        other_works = other_works && !tensor.sparse;
        const bool floating = std::ranges::find(kFloating, tensor.dtype) != kFloating.end();
        if (tensor.requires_grad && floating && frame.calls >= 2 * step.calls)
          device = tensor.device;
      }
    return 0;
  });
  return other_works ? device : std::string();
}

Found for_loop_optimizer(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (frame.layer != Layer::python || !frame.name.starts_with("torch.optim.")) return std::nullopt;
  const std::size_t kind = frame.name.find(kForLoop);
  if (kind == std::string::npos) return std::nullopt;
  const std::string optimizer = frame.name.substr(kind + kForLoop.size());
  const std::string device = device_of_parameters(frame);
  const bool on_host = is_host(device);
  if (on_host ? std::ranges::find(kFusedOnCpu, optimizer) == kFusedOnCpu.end()
              : !device.starts_with("cuda"))
    return std::nullopt;
  return Sighting{
      fmt::format("updates parameters on {} one after another ({}, which also has {})",
                  printable(device), printable(optimizer), on_host ? "fused=True" : "foreach=True"),
      frame.calls};
}

constexpr auto kRules = std::to_array<FindingRule>({
    {"implicit-copy", "copies between devices that the program did not ask for",
     "Each copy crosses the bus, and most of them make the host wait.",
     "Create the tensor on the device, or move it there once, before the loop.", 1, implicit_copy},
    {"host-wait", "the host waits for the device",
     "While the host waits, it queues no work, and the device runs dry.",
     "Keep the value on the device, or read it once every many steps.", 2, host_wait},
    {"layout-copy", "copies that only change the order of a tensor in memory",
     "Each copy reads and writes the whole tensor and computes nothing.",
     "Keep one memory format throughout: move the model and its input to channels_last once.", 2,
     layout_copy},
    {"slow-kernel", "kernels that stand in where no fast one fits",
     "A fallback can be many times slower than the library's or the fused kernel.",
     "Use a dtype, layout and arguments that the fast kernel supports; `optrace explain OP` shows "
     "the kernels of an op.",
     1, slow_kernel},
    {"tiny-ops", "many calls of ops on few elements",
     "A call costs microseconds however few elements it has.",
     "Stack the tensors and call each op once on the whole, or compile the function with "
     "torch.compile.",
     1000, tiny_ops},
    {"graph-break", "graph breaks of torch.compile",
     "At a break, compiled code returns to Python, and nothing is fused across it.",
     "Move the unsupported code out of the compiled function; TORCH_LOGS=graph_breaks prints the "
     "reason.",
     1, graph_break},
    {"for-loop-optimizer", "optimizers that update one parameter after another",
     "Every parameter costs several calls of ops in each step.",
     "Pass fused=True (or, on a GPU, foreach=True) to the optimizer.", 2, for_loop_optimizer},
});

}  // namespace

std::span<const FindingRule> finding_rules() {
  return kRules;
}

}  // namespace optrace
