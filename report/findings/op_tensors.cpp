#include "report/findings/op_tensors.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <variant>
#include <vector>

#include "pytorch/names/devices.h"
#include "pytorch/names/dispatch_keys.h"

namespace optrace {
namespace {

// The sizes and strides of a tensor, as many of the ones as of the others.
struct Layout {
  const Sizes& shape;
  const Sizes& strides;
};

// Returns nothing if the layout is unknown. The tensor must outlive the result.
std::optional<Layout> layout_of(const TensorFacts& tensor) {
  if (!tensor.shape || !tensor.strides || tensor.shape->size() != tensor.strides->size())
    return std::nullopt;
  return Layout{*tensor.shape, *tensor.strides};
}

// Returns true if the dimensions, innermost first, lie in memory without gaps.
bool is_dense(const Layout& layout, const std::vector<std::size_t>& order) {
  std::uint64_t stride = 1;
  for (const std::size_t dimension : order) {
    const auto size = static_cast<std::uint64_t>(layout.shape[dimension]);
    if (size != 1 && static_cast<std::uint64_t>(layout.strides[dimension]) != stride) return false;
    stride *= size;
  }
  return true;
}

// Returns the numbers of dimensions, the last one first.
std::vector<std::size_t> innermost_first(std::size_t dimensions) {
  std::vector<std::size_t> order;
  for (std::size_t i = dimensions; i-- > 0;) order.push_back(i);
  return order;
}

// Returns true if a result is new or a view, and requires gradients.
bool records_graph(const Result* result) {
  const auto* const tensor = std::get_if<TensorFacts>(&result->value);
  return tensor != nullptr && tensor->requires_grad &&
         (result->relation == ResultRelation::fresh || result->relation == ResultRelation::view);
}

}  // namespace

std::string device_of(const OpCalls& calls) {
  std::string device;
  for (const TensorFacts* const tensor : tensors_in(calls)) {
    if (!tensor->device.empty()) device = tensor->device;
    if (!device.empty() && !is_host(device)) break;
  }
  return device;
}

CallsByDevice on_unknown_device(std::uint64_t calls) {
  return {{"", static_cast<double>(calls)}};
}

CallsByDevice share_by_device(const Frame& op, std::uint64_t calls) {
  CallsByDevice shares;
  double all = 0;
  for (const OpCalls& kind : op_calls(op)) {
    shares[device_of(kind)] += static_cast<double>(kind.calls);
    all += static_cast<double>(kind.calls);
  }
  for (auto& [device, share] : shares) share *= static_cast<double>(calls) / std::max(all, 1.0);
  return shares;
}

const TensorFacts* tensor_argument(const OpCalls& calls, std::string_view name) {
  if (!calls.arguments) return nullptr;
  const auto found = std::ranges::find(*calls.arguments, name, &Argument::name);
  if (found == calls.arguments->end()) return nullptr;
  const std::vector<const TensorFacts*> tensors = tensors_in(found->value);
  return tensors.empty() ? nullptr : tensors.front();
}

bool has_argument(const Frame& frame, std::string_view name, bool value) {
  const auto& arguments = frame.detail->dispatch->arguments;
  return arguments && std::ranges::any_of(*arguments, [&](const Argument& argument) {
           return argument.name == name && argument.value == Value(Scalar(value));
         });
}

std::uint64_t elements_of(const TensorFacts& tensor) {
  if (!tensor.shape) return 0;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t elements = 1;
  for (const std::int64_t length : *tensor.shape) {
    if (length <= 0) return 0;
    const auto size = static_cast<std::uint64_t>(length);
    elements = elements > kMost / size ? kMost : elements * size;
  }
  return elements;
}

bool is_sparse(const TensorFacts& tensor) {
  return std::ranges::any_of(tensor.keys, is_sparse_dispatch_key);
}

std::uint64_t calls_recording_graph(const Frame& frame) {
  return std::ranges::any_of(results_of(*frame.detail->dispatch), records_graph) ? frame.calls : 0;
}

bool is_contiguous(const TensorFacts& tensor) {
  const std::optional<Layout> layout = layout_of(tensor);
  return layout && is_dense(*layout, innermost_first(layout->shape.size()));
}

bool is_permuted(const TensorFacts& tensor) {
  const std::optional<Layout> layout = layout_of(tensor);
  if (!layout) return false;
  std::vector<std::size_t> order = innermost_first(layout->shape.size());
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return layout->strides[i]; });
  return is_dense(*layout, order) && !is_contiguous(tensor);
}

MemoryFormat memory_format(const TensorFacts& tensor) {
  const std::optional<Layout> layout = layout_of(tensor);
  if (!layout) return MemoryFormat::other;
  const std::size_t dimensions = layout->shape.size();
  if (dimensions != 4 && dimensions != 5) return MemoryFormat::other;
  std::vector<std::size_t> channels_last{1};
  for (std::size_t i = dimensions; i-- > 2;) channels_last.push_back(i);
  channels_last.push_back(0);
  const bool first = is_contiguous(tensor);
  if (first == is_dense(*layout, channels_last)) return MemoryFormat::other;
  return first ? MemoryFormat::contiguous : MemoryFormat::channels_last;
}

}  // namespace optrace
