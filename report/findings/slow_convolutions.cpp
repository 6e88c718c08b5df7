#include "report/findings/slow_convolutions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "pytorch/names/devices.h"
#include "report/findings/rule_functions.h"
#include "report/model/walk_frames.h"

// The conditions are those of aten/src/ATen/native/Convolution.cpp.

namespace optrace {
namespace {

constexpr std::string_view kSlow = "slow_conv";
constexpr std::string_view kChoice = "at::native::_select_conv_backend";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// They are ops in the forward pass, and functions in most of the backward pass.
bool is_slow(const Frame& frame) {
  if (is_op_call(frame)) return frame.op && contains(*frame.op, kSlow);
  return frame.layer == Layer::kernel && contains(frame.name, kSlow) &&
         contains(frame.name, "backward");
}

bool has_returned_false(const Frame& frame, std::string_view function) {
  return contains(frame.name, function) && frame.detail->returned &&
         std::ranges::any_of(frame.detail->returned->values,
                             [](const CountedResult& result) { return result.name == "false"; });
}

// Returns true if a function that the frames above called, or the choice among them, returned
// false.
bool was_false(const FrameInContext& at, std::string_view function) {
  bool found = false;
  for (const Frame* const above : at.below_user_frame())
    for (const Frame& called : above->children) {
      found = found || has_returned_false(called, function);
      if (called.name.starts_with(kChoice))
        walk_frames(called.children, 0, [&](const Frame& one, int) {
          found = found || has_returned_false(one, function);
          return 0;
        });
    }
  return found;
}

// Returns the first kind of the calls of the innermost op on the stack that has the argument.
const std::vector<Argument>* arguments_with(const FrameInContext& at, std::string_view name) {
  for (auto frame = at.stack.rbegin(); frame != at.stack.rend(); ++frame)
    for (const OpCalls& calls : op_calls(**frame)) {
      const std::optional<std::vector<Argument>>& arguments = calls.arguments;
      if (!arguments) continue;
      if (std::ranges::find(*arguments, name, &Argument::name) != arguments->end())
        return &*arguments;
    }
  return nullptr;
}

std::vector<std::int64_t> numbers(const std::vector<Argument>& arguments, std::string_view name) {
  std::vector<std::int64_t> all;
  const auto argument = std::ranges::find(arguments, name, &Argument::name);
  if (argument == arguments.end()) return all;
  if (const auto* const list = std::get_if<std::vector<Scalar>>(&argument->value))
    for (const Scalar& one : *list)
      if (const auto* const number = std::get_if<std::int64_t>(&one)) all.push_back(*number);
  return all;
}

bool has_large_output_padding(const FrameInContext& at) {
  const std::vector<Argument>* const arguments = arguments_with(at, "output_padding");
  if (arguments == nullptr) return false;
  const auto padding = numbers(*arguments, "output_padding");
  const auto stride = numbers(*arguments, "stride");
  for (std::size_t i = 0; i < std::min(padding.size(), stride.size()); ++i)
    if (padding[i] >= stride[i]) return true;
  return false;
}

// Returns why oneDNN was excluded; empty if PyTorch's own convolution was taken because it is
// faster, or if the reason is not known.
std::string why_not_onednn(const FrameInContext& at, const std::string& dtype) {
  if (was_false(at, "Context::userEnabledMkldnn"))
    return "oneDNN is switched off: Context::userEnabledMkldnn returned false.";
  if (dtype == "bfloat16" || dtype == "float16")
    return fmt::format("oneDNN has no convolution of {} for this processor.", dtype);
  if (dtype != "float32")
    return fmt::format("oneDNN has no convolution of {} (ConvParams::use_mkldnn).",
                       printable(dtype));
  if (has_large_output_padding(at))
    return "oneDNN takes no output padding as large as the stride (is_output_padding_big).";
  return {};
}

std::string why_not_cudnn(const FrameInContext& at) {
  return was_false(at, "Context::userEnabledCuDNN")
             ? "cuDNN is switched off: Context::userEnabledCuDNN returned false."
             : "cuDNN does not support the call (ConvParams::use_cudnn).";
}

const TensorFacts* innermost_tensor(const FrameInContext& at) {
  for (auto frame = at.stack.rbegin(); frame != at.stack.rend(); ++frame)
    for (const OpCalls& calls : op_calls(**frame))
      if (const auto tensors = tensors_in(calls); !tensors.empty()) return tensors.front();
  return nullptr;
}

}  // namespace

std::optional<RuleMatch> slow_convolution(const FrameInContext& at) {
  const Frame& frame = at.frame();
  if (!is_slow(frame)) return std::nullopt;
  const TensorFacts* const input = innermost_tensor(at);
  if (input == nullptr || input->dtype.empty()) return std::nullopt;
  std::string reason =
      is_host(input->device) ? why_not_onednn(at, input->dtype) : why_not_cudnn(at);
  if (reason.empty()) return std::nullopt;
  const std::string which = frame.op.value_or(frame.name);
  return RuleMatch{
      .what = fmt::format("runs a convolution without oneDNN or cuDNN ({})", printable(which)),
      .calls = frame.calls,
      .reason = std::move(reason)};
}

}  // namespace optrace
