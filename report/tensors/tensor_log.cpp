#include "report/tensors/tensor_log.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/core.h>

#include "platform/text/joined.h"

namespace optrace {
namespace {

// Returns true if the strides are those of the same layout: strides of dimensions with one element
// have no meaning.
bool same_layout(const Sizes& shape, const Sizes& one, const Sizes& other) {
  if (one.size() != other.size() || shape.size() != one.size()) return true;
  for (std::size_t i = 0; i < one.size(); ++i)
    if (shape[i] != 1 && one[i] != other[i]) return false;
  return true;
}

std::string reason_of_copy(const StoredTensor& to, const StoredTensor& from) {
  if (to.device != from.device) return fmt::format("device: {} to {}", from.device, to.device);
  if (to.dtype != from.dtype) return fmt::format("dtype: {} to {}", from.dtype, to.dtype);
  if (to.shape != from.shape) return "shape: the source is expanded";
  if (to.shape && to.strides && from.strides && !same_layout(*to.shape, *to.strides, *from.strides))
    return fmt::format("layout: strides {} to {}", joined(*from.strides, ","),
                       joined(*to.strides, ","));
  return "requested";
}

// Ops that copy the data of their second tensor to the first.
bool copies_second(std::string_view name) {
  return name.starts_with("aten::copy_") || name == "aten::copy" || name == "aten::_copy_from" ||
         name == "aten::_copy_from_and_resize";
}

// Ops whose new result has the data of the first tensor, if no op inside them copies it.
bool copies_first(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "aten::clone",   "aten::contiguous", "aten::_to_copy",    "aten::to",
      "aten::reshape", "aten::to_mkldnn",  "aten::_lazy_clone", "aten::lift_fresh_copy"};
  const std::string_view base = name.substr(0, name.find('.'));
  return std::ranges::find(kNames, base) != kNames.end();
}

}  // namespace

const LoggedCall* TensorLog::call(std::uint64_t number) const {
  const auto found = places.find(number);
  return found == places.end() ? nullptr : &calls[found->second];
}

std::string TensorLog::node_made_by(const LoggedCall& call) const {
  const auto found = call.node ? nodes.find(*call.node) : nodes.end();
  return found == nodes.end() ? std::string() : found->second;
}

const LoggedCall* TensorLog::outermost(std::uint64_t number) const {
  const LoggedCall* found = call(number);
  while (found != nullptr && found->outer != 0) {
    const LoggedCall* const outer = call(found->outer);
    if (outer == nullptr) break;
    found = outer;
  }
  return found;
}

std::vector<const LoggedCall*> TensorLog::inside(std::uint64_t number) const {
  std::vector<const LoggedCall*> found;
  for (auto [at, end] = inner.equal_range(number); at != end; ++at)
    found.push_back(&calls[at->second]);
  std::ranges::sort(found, {}, &LoggedCall::number);
  return found;
}

std::vector<TensorCopy> copies_of(const TensorLog& log, const LoggedCall& call) {
  const auto copy = [&](const StoredTensor& from, const StoredTensor& to) {
    return from.storage == 0 || to.storage == 0 || from.storage == to.storage
               ? std::vector<TensorCopy>()
               : std::vector{
                     TensorCopy{from.storage, to.storage, call.number, reason_of_copy(to, from)}};
  };
  if (call.arguments.size() >= 2 && copies_second(call.name))
    return copy(call.arguments[1], call.arguments[0]);
  if (!call.arguments.empty() && call.results.size() == 1 && copies_first(call.name) &&
      call.results[0].relation == ResultRelation::fresh && !log.inner.contains(call.number))
    return copy(call.arguments[0], call.results[0]);
  return {};
}

std::string tensor_text(const StoredTensor& tensor) {
  std::string text = !tensor.shape           ? "?"
                     : tensor.shape->empty() ? "scalar"
                                             : joined(*tensor.shape, "×");
  for (const std::string& part : {tensor.dtype, tensor.device})
    if (!part.empty()) text += " " + part;
  if (tensor.storage != 0) text += fmt::format(", storage #{} +{}", tensor.storage, tensor.offset);
  return text;
}

}  // namespace optrace
