#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/names/devices.h"
#include "pytorch/names/op_name.h"
#include "report/findings/device_copies.h"
#include "report/findings/rule_functions.h"

// The rules about copies, and about waiting for them.

namespace optrace {
namespace {

// Ops for which the host needs a value that the device computes, and the argument with it.
struct WaitingOp {
  std::string_view op;
  std::string_view argument;
  std::string_view what;
};
constexpr auto kWaitingOps = std::to_array<WaitingOp>({
    {"aten::_local_scalar_dense", "self", "reads a number from a tensor"},
    {"aten::nonzero", "self", "asks for the number of nonzero elements of a tensor"},
});

// Returns true below Module.to(), Module.cpu() and the like, which convert each parameter once.
bool converts_module(const FrameInContext& at) {
  return std::ranges::any_of(at.below_user_frame(), [](const Frame* frame) {
    return frame->name == "torch.nn.modules.module.Module._apply";
  });
}

Found waiting_copy(const Frame& frame) {
  if (!has_argument(frame, "non_blocking", false)) return std::nullopt;
  return describe_calls(frame, [](const OpCalls& calls) -> std::string {
    const TensorFacts* const to = tensor_argument(calls, "self");
    const TensorFacts* const from = tensor_argument(calls, "src");
    if (to == nullptr || from == nullptr || !is_host(to->device) || is_host(from->device))
      return {};
    return fmt::format("waits for a copy to {} of a tensor", to->device);
  });
}

bool is_synchronisation(const Frame& frame) {
  return frame.layer == Layer::library && waits_for_device(frame.name);
}

std::string name_of(MemoryFormat format) {
  return format == MemoryFormat::contiguous ? "contiguous" : "channels_last";
}

Found format_copy(const Frame& frame) {
  return describe_calls(frame, [](const OpCalls& calls) -> std::string {
    const TensorFacts* const to = tensor_argument(calls, "self");
    const TensorFacts* const from = tensor_argument(calls, "src");
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
  return std::ranges::any_of(at.below_user_frame(), [](const Frame* frame) {
    return frame->detail->python_name == "torch.Tensor.to";
  });
}

// A copy that moves the elements of a tensor with at least this many is worth a remark.
constexpr std::uint64_t kManyElements = 4096;

Found order_copy(const Frame& frame) {
  return describe_calls(frame, [](const OpCalls& calls) -> std::string {
    const TensorFacts* const to = tensor_argument(calls, "self");
    const TensorFacts* const from = tensor_argument(calls, "src");
    if (to == nullptr || from == nullptr || to->device != from->device ||
        to->dtype != from->dtype || elements_of(*from) < kManyElements)
      return {};
    return is_permuted(*from) && is_contiguous(*to)
               ? "copies a transposed tensor to make it contiguous"
               : "";
  });
}

// Ops that copy because the program asks for it; other ops need their input in another order.
constexpr auto kRequestedCopies = std::to_array<std::string_view>(
    {"aten::contiguous", "aten::clone", "aten::copy_", "aten::reshape", "aten::flatten",
     "aten::ravel", "aten::to", "aten::_to_copy", "aten::cat", "aten::stack"});

// Returns the op that the program, or an autograd node, called and that copies; null if it is one
// that is asked to copy.
const Frame* op_that_needs_order(const FrameInContext& at) {
  const auto below = at.below_user_frame();
  const auto node = std::find_if(below.rbegin(), below.rend(), [](const Frame* frame) {
    return frame->detail->node.has_value();
  });
  const auto op =
      std::find_if(node.base(), below.end(), [](const Frame* frame) { return is_op_call(*frame); });
  if (op == below.end()) return nullptr;
  const std::string name = split_op_name((*op)->op.value_or("")).packet();
  const bool is_requested = std::ranges::find(kRequestedCopies, name) != kRequestedCopies.end();
  return is_requested ? nullptr : *op;
}

// Returns the format of a tensor among the arguments of an op's calls.
MemoryFormat format_of(const Frame& op, std::string_view argument) {
  for (const OpCalls& calls : op_calls(op))
    if (const TensorFacts* const tensor = tensor_argument(calls, argument))
      return memory_format(*tensor);
  return MemoryFormat::other;
}

bool has_image_in(const Frame& op, MemoryFormat format) {
  return std::ranges::any_of(op_calls(op), [&](const OpCalls& calls) {
    return std::ranges::any_of(tensors_in(calls), [&](const TensorFacts* tensor) {
      return memory_format(*tensor) == format;
    });
  });
}

// Adds which op copies, and what to do if the program already follows the rule's remedy. Returns
// false if no order of the op's arguments would spare the copy.
bool explain_layout_copy(const FrameInContext& at, RuleMatch& found) {
  const Frame* const op = op_that_needs_order(at);
  if (op == nullptr) return true;
  const std::string name = printable(op->op.value_or("an op"));
  found.what += fmt::format(" for {}", name);
  const MemoryFormat weight = format_of(*op, "weight");
  const MemoryFormat before = format_of(at.frame(), "src"), after = format_of(at.frame(), "self");
  if (before != MemoryFormat::other && !has_image_in(*op, before)) {
    found.reason = fmt::format("{} computes in another order than that of its arguments.", name);
    return has_image_in(*op, after);
  }
  if (weight == MemoryFormat::channels_last && after == weight) {
    found.reason = fmt::format("The weight of {} is in channels_last, and its input is not.", name);
    found.remedy =
        "Find the op before it that returns its result in the contiguous format, and replace it "
        "by one that keeps channels_last.";
  } else if (before == MemoryFormat::channels_last && weight == MemoryFormat::other &&
             name.find("conv") == std::string::npos) {
    found.reason = fmt::format("{} has no kernel for the order that its input has.", name);
    found.remedy =
        "Use an op that has one, such as batch_norm instead of group_norm on CUDA, or keep the "
        "layers around it contiguous.";
  }
  return true;
}

// Functions of autocast that cast an argument. aten/src/ATen/autocast_mode.cpp.
constexpr std::string_view kAutocast = "at::autocast::cached_cast";

// Returns the call of the op whose arguments autocast casts; null if it casts none here.
const Frame* autocast_op(const FrameInContext& at) {
  const auto below = at.below_user_frame();
  const auto cast = std::ranges::find_if(
      below, [](const Frame* frame) { return frame->name.starts_with(kAutocast); });
  if (cast == below.end()) return nullptr;
  const auto above = std::span(below.begin(), cast);
  const auto op = std::find_if(above.rbegin(), above.rend(),
                               [](const Frame* frame) { return is_op_call(*frame); });
  return op == above.rend() ? nullptr : *op;
}

// Returns the shapes of the parameters that an op's calls have, by the usual names of arguments.
std::set<std::optional<Sizes>> shapes_of_parameters(const Frame& op) {
  std::set<std::optional<Sizes>> shapes;
  for (const OpCalls& calls : op_calls(op))
    for (const std::string_view name : {"weight", "bias"})
      if (const TensorFacts* const tensor = tensor_argument(calls, name); tensor && tensor->shape)
        shapes.insert(tensor->shape);
  return shapes;
}

}  // namespace

Found implicit_copy(const FrameInContext& at) {
  if (!is_call_of(at.frame(), "aten::copy_") || implicit_copies(at.stack) == 0) return std::nullopt;
  Found found = describe_calls(at.frame(), [](const OpCalls& calls) -> std::string {
    const TensorFacts* const to = tensor_argument(calls, "self");
    const TensorFacts* const from = tensor_argument(calls, "src");
    if (to == nullptr || from == nullptr || to->device == from->device) return {};
    return fmt::format("copies a tensor from {} to {} without being asked to",
                       printable(from->device), printable(to->device));
  });
  if (found) found->devices.clear();  // The text names both.
  return found;
}

Found host_wait(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (is_call_of(frame, "aten::copy_"))
    return converts_module(at) ? std::nullopt : waiting_copy(frame);
  for (const WaitingOp& waiting : kWaitingOps)
    if (is_call_of(frame, waiting.op))
      return describe_calls(frame, [&](const OpCalls& calls) -> std::string {
        const TensorFacts* const read = tensor_argument(calls, waiting.argument);
        if (read == nullptr || read->device.empty() || is_host(read->device)) return {};
        return std::string(waiting.what);
      });
  // Ops that wait are covered above, or wait for copies to the device.
  if (at.in_op || !is_synchronisation(frame)) return std::nullopt;
  return RuleMatch{.what = fmt::format("waits for the device ({})", printable(frame.name)),
                   .calls = frame.calls,
                   .devices = on_unknown_device(frame.calls)};
}

Found layout_copy(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (!is_call_of(frame, "aten::copy_") || converts_module(at) || selects_format(at))
    return std::nullopt;
  Found found = format_copy(frame);
  if (!found) found = order_copy(frame);
  return found && explain_layout_copy(at, *found) ? found : std::nullopt;
}

Found repeated_cast(const FrameInContext& at) {
  const Frame& frame = at.frame();
  // What runs once below the program's line casts each parameter once.
  if (!is_call_of(frame, "aten::_to_copy") ||
      at.below_user_frame().front()->calls < 2 * at.processes)
    return std::nullopt;
  const Frame* const op = autocast_op(at);
  if (op == nullptr) return std::nullopt;
  const auto shapes = shapes_of_parameters(*op);
  return describe_calls(frame, [&](const OpCalls& calls) -> std::string {
    const TensorFacts* const from = tensor_argument(calls, "self");
    if (from == nullptr || from->dtype != "float32" || !shapes.contains(from->shape) ||
        calls.calls < 2 * at.processes)
      return {};
    return fmt::format("makes autocast cast the parameters of {}",
                       printable(op->op.value_or("an op")));
  });
}

}  // namespace optrace
