#include "report/findings/device_copies.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pytorch/names/devices.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// Functions whose names announce a copy to another device or to the host: methods of tensors and
// modules, and functions of torch.
constexpr auto kAskedFor = std::to_array<std::string_view>(
    {"to", "cpu", "cuda", "copy_", "item", "tolist", "numpy", "type", "type_as", "tensor",
     "as_tensor", "asarray", "new_tensor", "load", "load_state_dict", "save"});

/// Returns the devices of all tensors among values.
std::set<std::string> devices_of(const Json& values) {
  std::set<std::string> devices;
  // The readers of op records limit their depth.
  std::vector<const Json*> pending{&values};
  while (!pending.empty()) {
    const Json& value = *pending.back();
    pending.pop_back();
    if (!value.is_structured()) continue;
    if (value.is_object() && value.contains("tensor"))
      if (std::string device = text_at(value["tensor"], "device"); !device.empty())
        devices.insert(std::move(device));
    for (const Json& part : value) pending.push_back(&part);
  }
  return devices;
}

/// Counts the calls of an op for which `holds` is true of their tensors' devices.
template <typename Holds>
std::uint64_t calls_where(const Frame& frame, const Holds& holds) {
  const auto arguments = frame.detail.find("arguments");
  if (arguments == frame.detail.end()) return 0;
  const auto variants = frame.detail.find("variants");
  if (variants == frame.detail.end() || !variants->is_array())
    return holds(devices_of(*arguments)) ? frame.calls : 0;
  std::uint64_t calls = 0;
  for (const Json& variant : *variants)
    if (variant.is_object() && variant.contains("arguments") &&
        holds(devices_of(variant["arguments"])))
      calls += count_at(variant, "calls");
  return calls;
}

std::uint64_t copies_of_op(const Frame& frame) {
  if (!is_op_call(frame) || !may_copy_to_another_device(frame)) return 0;
  if (frame.op == "aten::copy_")
    return calls_where(frame,
                       [](const std::set<std::string>& devices) { return devices.size() > 1; });
  return calls_where(frame, [](const std::set<std::string>& devices) {
    return !devices.empty() && !is_host(*devices.begin());
  });
}

/// Counts the copies between host and device that CUDA was asked for.
std::uint64_t copies_of_memory(const Frame& frame) {
  if (!frame.detail.is_object()) return 0;
  const auto calls = frame.detail.find("calls");
  if (calls == frame.detail.end() || !calls->is_array()) return 0;
  std::uint64_t count = 0;
  for (const Json& call : *calls) {
    const std::string direction = text_at(call, "direction");
    if (text_at(call, "kind") == "copy" &&
        (direction == "host to device" || direction == "device to host"))
      count += count_at(call, "calls");
  }
  return count;
}

/// Returns the unqualified name of the function that the program's own Python code called on the
/// way. If all code is torch's, returns the name of the outermost function.
std::string_view asked_by(std::span<const Frame* const> way) {
  const auto is_program = [](const Frame* frame) {
    return frame->layer == Layer::python && !frame->name.starts_with("torch.");
  };
  const auto last = std::find_if(way.rbegin(), way.rend(), is_program);
  for (auto frame = last.base(); frame != way.end(); ++frame) {
    std::string_view name;
    if ((*frame)->layer == Layer::python) {
      name = (*frame)->name;
    } else if ((*frame)->detail.is_object()) {
      const auto builtin = (*frame)->detail.find("python_name");
      if (builtin != (*frame)->detail.end() && builtin->is_string())
        name = builtin->get_ref<const std::string&>();
    }
    if (!name.empty()) return name.substr(name.rfind('.') + 1);
  }
  return {};
}

}  // namespace

bool is_op_call(const Frame& frame) {
  return text_at(frame.detail, "step") == "call";
}

bool may_copy_to_another_device(const Frame& frame) {
  return frame.op && (*frame.op == "aten::copy_" || *frame.op == "aten::_local_scalar_dense");
}

std::uint64_t implicit_copies(std::span<const Frame* const> way) {
  const Frame& frame = *way.back();
  std::uint64_t copies = copies_of_op(frame);
  if (copies == 0) {
    copies = copies_of_memory(frame);
    const auto above = way.first(way.size() - 1);
    if (copies == 0 ||
        std::ranges::any_of(above, [](const Frame* one) { return copies_of_op(*one) != 0; }))
      return 0;
  }
  return std::ranges::find(kAskedFor, asked_by(way)) == kAskedFor.end() ? copies : 0;
}

}  // namespace optrace
