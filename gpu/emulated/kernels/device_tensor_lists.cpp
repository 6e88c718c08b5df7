#include "gpu/emulated/kernels/device_tensor_lists.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>

namespace optrace::emulated {
namespace {

// From MultiTensorApply.cuh: number of tensors that fit into the argument, by the number of lists.
constexpr std::size_t kMaxLists = 5;
constexpr std::size_t kSlots[kMaxLists] = {110, 64, 48, 36, 30};
constexpr std::size_t kSlotsBesideNumbers[kMaxLists] = {96, 64, 48, 36, 30};
constexpr std::size_t kSlotsBesideComplexDoubles[2] = {72, 60};
constexpr std::size_t kMaxBlocks = 320;
constexpr std::size_t kAddress = sizeof(void*);
constexpr std::size_t kSize = sizeof(std::int64_t);

/// Parses a decimal number of one or two digits. Returns 0 for any other text.
std::size_t small_number(Text text) {
  if (text.empty() || text.size() > 2) return 0;
  std::size_t number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return 0;
    number = 10 * number + static_cast<std::size_t>(digit - '0');
  }
  return number;
}

bool is_number(Text text) {
  return text == "0" || small_number(text) != 0;
}

std::optional<TensorLists> layout_of(Text metadata) {
  const std::vector<Text> arguments = template_arguments(metadata);
  const std::size_t lists = arguments.empty() ? 0 : small_number(arguments.back());
  if (lists == 0 || lists > kMaxLists) return std::nullopt;
  if (has(metadata, "FusedOptimizerTensorListMetadata<"))
    return TensorLists{lists, kSlots[lists - 1], kSlotsBesideNumbers[lists - 1] * kAddress, 0,
                       {},    std::nullopt};
  if (has(metadata, "TensorListScalarListMetadata<")) {
    const ElementType* const number = first_type(arguments.front());
    if (number == nullptr || arguments.size() != 2) return std::nullopt;
    const bool largest = number->name == "c10::complex<double>" && lists <= 2;
    const std::size_t slots =
        largest ? kSlotsBesideComplexDoubles[lists - 1] : kSlotsBesideNumbers[lists - 1];
    return TensorLists{lists, slots, slots * number->bytes, 0, {}, std::nullopt};
  }
  if (has(metadata, "TensorListMetadata<"))
    return TensorLists{lists, kSlots[lists - 1], 0, 0, {}, std::nullopt};
  return std::nullopt;
}

/// Functors of _foreach_ ops end with the number of lists, the number of read lists and the index
/// of the written list: F<float, 2, 2, 0>. Those of optimizers write all lists.
void mark_written(TensorLists& lists, Text functor) {
  constexpr std::size_t kNumbers = 3;
  const std::vector<Text> arguments = template_arguments(functor);
  const bool one = arguments.size() > kNumbers &&
                   std::all_of(arguments.end() - kNumbers, arguments.end(), is_number);
  if (has(functor, "NormFunctor<")) return;  // It writes to an output passed separately.
  if (one) {
    lists.written = {small_number(arguments.back())};
    return;
  }
  lists.written.resize(lists.lists);
  std::iota(lists.written.begin(), lists.written.end(), std::size_t{0});
}

template <typename T>
T at(const char* object, std::size_t offset) {
  T value{};
  std::memcpy(static_cast<void*>(&value), object + offset, sizeof value);
  return value;
}

/// Number of tensors processed by the blocks: the highest index plus one.
std::size_t tensors_of(const char* tensor_of_block, std::size_t blocks) {
  const auto* const numbers = reinterpret_cast<const unsigned char*>(tensor_of_block);
  const std::size_t count = std::min(blocks, kMaxBlocks);
  return count == 0 ? 0 : std::size_t{*std::max_element(numbers, numbers + count)} + 1;
}

bool is_null(void* const* arguments, std::size_t number) {
  return arguments[number] != nullptr &&
         at<void*>(static_cast<const char*>(arguments[number]), 0) == nullptr;
}

}  // namespace

std::optional<TensorLists> tensor_lists(const std::vector<Text>& parameters) {
  if (parameters.size() < 2) return std::nullopt;
  std::optional<TensorLists> lists = layout_of(parameters[0]);
  if (!lists) return std::nullopt;
  mark_written(*lists, parameters[1]);
  if (const ElementType* const type = first_type(after(parameters[1], "<")))
    lists->element = type->bytes;
  // Fused optimizers have arguments (lists, functor, ..., scale of gradients, flag for infinite
  // ones).
  if (has(parameters[1], "::Fused") && parameters.size() > 4)
    lists->gradient_scale = parameters.size() - 2;
  return lists;
}

std::vector<WrittenTensor> tensors_written(const TensorLists& lists, void* const* arguments,
                                           std::size_t blocks) {
  if (arguments == nullptr || arguments[0] == nullptr) return {};
  const auto* const object = static_cast<const char*>(arguments[0]);
  const std::size_t sizes = lists.lists * lists.slots * kAddress;
  const std::size_t tensors = std::min(
      tensors_of(object + sizes + lists.slots * kSize + lists.between, blocks), lists.slots);
  std::vector<WrittenTensor> written;
  for (const std::size_t list : lists.written) {
    if (list == 1 && lists.gradient_scale && is_null(arguments, *lists.gradient_scale)) continue;
    for (std::size_t i = 0; i < tensors; ++i) {
      const auto elements = static_cast<std::size_t>(at<std::int64_t>(object, sizes + i * kSize));
      const std::size_t bytes =
          lists.element == 0 ? std::numeric_limits<std::size_t>::max() : elements * lists.element;
      written.push_back({at<void*>(object, (list * lists.slots + i) * kAddress), bytes});
    }
  }
  return written;
}

}  // namespace optrace::emulated
