#include "report/findings/op_tensors.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include <nlohmann/json.hpp>

#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

std::vector<std::uint64_t> numbers_at(const Json& tensor, const char* key) {
  std::vector<std::uint64_t> numbers;
  const auto list = tensor.find(key);
  if (list == tensor.end() || !list->is_array()) return numbers;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned()) return {};
    numbers.push_back(number.get<std::uint64_t>());
  }
  return numbers;
}

bool is_sparse(const Json& tensor) {
  const auto keys = tensor.find("keys");
  return keys != tensor.end() && keys->is_array() &&
         std::ranges::any_of(*keys, [](const Json& key) {
           return key.is_string() && key.get_ref<const std::string&>().starts_with("Sparse");
         });
}

OpTensor tensor_of(const Json& tensor, const std::string& name) {
  const auto shape = tensor.find("shape");
  const auto gradient = tensor.find("requires_grad");
  OpTensor result{.name = name,
                  .device = text_at(tensor, "device"),
                  .dtype = text_at(tensor, "dtype"),
                  .shape = numbers_at(tensor, "shape"),
                  .strides = numbers_at(tensor, "strides"),
                  .requires_grad = gradient != tensor.end() && *gradient == true,
                  .sparse = is_sparse(tensor)};
  result.known_shape =
      shape != tensor.end() && shape->is_array() && shape->size() == result.shape.size();
  return result;
}

OpCalls calls_of(const Json& call, std::uint64_t count) {
  OpCalls result{.calls = count, .tensors = {}};
  const auto add = [&](const Json& value, const std::string& name) {
    if (const Json& tensor = object_at(value, "tensor"); !tensor.empty())
      result.tensors.push_back(tensor_of(tensor, name));
  };
  for (const Json& argument : call["arguments"]) {
    if (!argument.is_object() || !argument.contains("value")) continue;
    const Json& value = argument["value"];
    if (value.is_array())
      for (const Json& element : value) add(element, text_at(argument, "name"));
    else
      add(value, text_at(argument, "name"));
  }
  return result;
}

bool has_arguments(const Json& call) {
  return call.is_object() && call.contains("arguments") && call["arguments"].is_array();
}

// Returns true if a result of the call is new or a view, and requires gradients.
bool records_graph(const Json& call) {
  const auto results = call.find("results");
  if (results == call.end() || !results->is_array()) return false;
  const auto records = [](const Json& value) {
    const std::string relation = text_at(value, "relation");
    const Json& tensor = object_at(value, "tensor");
    return (relation == "fresh" || relation == "view") && tensor.contains("requires_grad") &&
           tensor["requires_grad"] == true;
  };
  return std::ranges::any_of(*results, [&](const Json& result) {
    return result.is_array() ? std::ranges::any_of(result, records) : records(result);
  });
}

// Returns true if the dimensions, innermost first, lie in memory without gaps.
bool is_dense(const OpTensor& tensor, const std::vector<std::size_t>& order) {
  std::uint64_t stride = 1;
  for (const std::size_t dimension : order) {
    if (tensor.shape[dimension] != 1 && tensor.strides[dimension] != stride) return false;
    stride *= tensor.shape[dimension];
  }
  return true;
}

}  // namespace

std::vector<OpCalls> op_calls(const Frame& frame) {
  std::vector<OpCalls> all;
  if (!frame.detail.is_object()) return all;
  const auto variants = frame.detail.find("variants");
  if (variants == frame.detail.end() || !variants->is_array()) {
    if (has_arguments(frame.detail)) all.push_back(calls_of(frame.detail, frame.calls));
    return all;
  }
  for (const Json& variant : *variants)
    if (has_arguments(variant)) all.push_back(calls_of(variant, count_at(variant, "calls")));
  return all;
}

const OpTensor* tensor_named(const OpCalls& call, std::string_view name) {
  const auto found = std::ranges::find(call.tensors, name, &OpTensor::name);
  return found == call.tensors.end() ? nullptr : &*found;
}

std::uint64_t elements_of(const OpTensor& tensor) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t elements = 1;
  for (const std::uint64_t size : tensor.shape) {
    if (size == 0) return 0;
    elements = elements > kMost / size ? kMost : elements * size;
  }
  return elements;
}

std::uint64_t calls_recording_graph(const Frame& frame) {
  return frame.detail.is_object() && records_graph(frame.detail) ? frame.calls : 0;
}

bool is_contiguous(const OpTensor& tensor) {
  if (!tensor.known_shape || tensor.strides.size() != tensor.shape.size()) return false;
  std::vector<std::size_t> order;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) order.push_back(i);
  return is_dense(tensor, order);
}

bool is_permuted(const OpTensor& tensor) {
  if (!tensor.known_shape || tensor.strides.size() != tensor.shape.size()) return false;
  std::vector<std::size_t> order(tensor.shape.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return tensor.strides[i]; });
  return is_dense(tensor, order) && !is_contiguous(tensor);
}

MemoryFormat memory_format(const OpTensor& tensor) {
  const std::size_t dimensions = tensor.shape.size();
  if ((dimensions != 4 && dimensions != 5) || tensor.strides.size() != dimensions)
    return MemoryFormat::other;
  std::vector<std::size_t> contiguous;
  for (std::size_t i = dimensions; i-- > 0;) contiguous.push_back(i);
  std::vector<std::size_t> channels_last{1};
  for (std::size_t i = dimensions; i-- > 2;) channels_last.push_back(i);
  channels_last.push_back(0);
  const bool first = is_dense(tensor, contiguous);
  if (first == is_dense(tensor, channels_last)) return MemoryFormat::other;
  return first ? MemoryFormat::contiguous : MemoryFormat::channels_last;
}

}  // namespace optrace
