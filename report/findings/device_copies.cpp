#include "report/findings/device_copies.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pytorch/names/devices.h"
#include "pytorch/names/op_name.h"
#include "report/compiled/graph_breaks.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

// Functions whose names announce a copy to another device or to the host: methods of tensors and
// modules, and functions of torch.
constexpr auto kExplicitCopies = std::to_array<std::string_view>(
    {"to", "cpu", "cuda", "copy_", "item", "tolist", "numpy", "type", "type_as", "tensor",
     "as_tensor", "asarray", "new_tensor", "load", "load_state_dict", "save"});

/// Returns the devices of all tensors among the arguments of calls, but for those without values.
std::set<std::string_view> devices_of(const OpCalls& calls) {
  std::set<std::string_view> devices;
  for (const TensorFacts* const tensor : tensors_in(calls))
    if (!tensor->device.empty() && tensor->device != "meta") devices.insert(tensor->device);
  return devices;
}

/// Counts the calls of an op for which `holds` is true of their tensors' devices.
template <typename Holds>
std::uint64_t calls_where(const Frame& frame, const Holds& holds) {
  std::uint64_t calls = 0;
  for (const OpCalls& kind : op_calls(frame))
    if (holds(devices_of(kind))) calls += kind.calls;
  return calls;
}

std::uint64_t copies_of_op(const Frame& frame) {
  if (!is_op_call(frame) || !may_copy_to_another_device(frame)) return 0;
  if (frame.op == "aten::copy_")
    return calls_where(
        frame, [](const std::set<std::string_view>& devices) { return devices.size() > 1; });
  return calls_where(frame, [](const std::set<std::string_view>& devices) {
    return !devices.empty() && !is_host(*devices.begin());
  });
}

/// Counts the copies between host and device that CUDA was asked for.
std::uint64_t copies_of_memory(const Frame& frame) {
  std::uint64_t count = 0;
  for (const LibraryCall& call : frame.detail->calls)
    if (call.kind == "copy" &&
        (call.direction == "host to device" || call.direction == "device to host"))
      count += call.calls;
  return count;
}

/// Returns the unqualified name of the function that the program's own Python code called on the
/// stack. If all code is torch's, returns the name of the outermost function.
std::string_view requesting_function(std::span<const Frame* const> stack) {
  const auto is_program = [](const Frame* frame) {
    return frame->layer == Layer::python && !frame->name.starts_with("torch.");
  };
  const auto last = std::find_if(stack.rbegin(), stack.rend(), is_program);
  for (auto frame = last.base(); frame != stack.end(); ++frame) {
    const std::string_view name =
        (*frame)->layer == Layer::python ? (*frame)->name : (*frame)->detail->python_name;
    if (!name.empty()) return name.substr(name.rfind('.') + 1);
  }
  return {};
}

// Ops that code of torch.compile calls for copies that the program asked for.
constexpr auto kExplicitOps = std::to_array<std::string_view>(
    {"aten::to", "aten::_to_copy", "aten::copy_", "aten::copy", "aten::item",
     "aten::_local_scalar_dense", "prims::device_put"});

/// Returns true if the outermost op on the stack is one of them. The Python functions above it are
/// torch's, and tell nothing.
bool is_explicit_in_graph(std::span<const Frame* const> stack) {
  const auto op =
      std::ranges::find_if(stack, [](const Frame* frame) { return is_op_call(*frame); });
  if (op == stack.end()) return false;
  const std::string name = split_op_name((*op)->op.value_or("")).packet();
  return std::ranges::find(kExplicitOps, name) != kExplicitOps.end();
}

bool in_compiled_code(std::span<const Frame* const> stack) {
  return std::ranges::any_of(stack, [](const Frame* frame) { return is_compiled_call(*frame); });
}

}  // namespace

bool may_copy_to_another_device(const Frame& frame) {
  return frame.op && (*frame.op == "aten::copy_" || *frame.op == "aten::_local_scalar_dense");
}

std::uint64_t implicit_copies(std::span<const Frame* const> stack) {
  const Frame& frame = *stack.back();
  std::uint64_t copies = copies_of_op(frame);
  if (copies == 0) {
    copies = copies_of_memory(frame);
    const auto above = stack.first(stack.size() - 1);
    if (copies == 0 ||
        std::ranges::any_of(above, [](const Frame* one) { return copies_of_op(*one) != 0; }))
      return 0;
  }
  if (in_compiled_code(stack) && is_explicit_in_graph(stack)) return 0;
  return std::ranges::find(kExplicitCopies, requesting_function(stack)) == kExplicitCopies.end()
             ? copies
             : 0;
}

}  // namespace optrace
