#include "gpu/emulated/kernels/device_kernel_effects.h"

#include <algorithm>
#include <cstring>

#include "gpu/emulated/kernels/device_signatures.h"
#include "gpu/emulated/memory/device_contents.h"

namespace optrace::emulated {
namespace {

using Kind = KernelWrites::Kind;

bool ends(Text text, Text part) {
  return text.size() >= part.size() && text.substr(text.size() - part.size()) == part;
}

/// True for pointers to non-const, and for PyTorch's views of tensors, which begin with such a
/// pointer.
bool is_writable(Text type) {
  if (ends(type, "*")) return !ends(type, "const*");
  for (const Text view : {"::TensorInfo<", "PackedTensorAccessor<", "PackedTensorAccessor32<",
                          "PackedTensorAccessor64<", "TensorAccessor<"}) {
    if (!has(type.substr(0, type.find('<') + 1), view)) continue;
    const std::vector<Text> arguments = template_arguments(type);
    return !arguments.empty() && !ends(arguments.front(), " const");
  }
  return false;
}

KernelWrites of_kind(Kind kind) {
  KernelWrites writes;
  writes.kind = kind;
  return writes;
}

KernelWrites of_type(Kind kind, Text text) {
  KernelWrites writes;
  writes.kind = kind;
  if (const ElementType* const type = first_type(text)) {
    writes.element = type->bytes;
    writes.floating = type->floating;
  }
  return writes;
}

/// Kernels with arguments (..., functor). The functors are lambdas, whose captures are in the order
/// of their use.
struct FunctorKernel {
  Text name;
  std::size_t parameters;
  std::size_t tensors;
  std::size_t word;
};

constexpr FunctorKernel kFunctorKernels[] = {
    // (int64_t count, functor); for put_(), the output is captured by the innermost lambda.
    {"::put_kernel(", 2, 2, KernelWrites::kLastWord},
    {"index_elementwise_kernel<", 2, 3, 0},
    // (int count, functor), whose first captures are the index, its size and the operation.
    {"_scatter_gather_elementwise_kernel<", 2, 3, 3},
    // (count, state of the generator, distribution, functor).
    {"distribution_elementwise_grid_stride_kernel<", 4, 1, 0},
    // (int count, functor).
    {"elementwise_kernel<", 2, 0, 0},
};

KernelWrites of_functor(Text signature, const std::vector<Text>& parameters) {
  for (const FunctorKernel& kernel : kFunctorKernels) {
    if (parameters.size() != kernel.parameters || !has(signature, kernel.name)) continue;
    KernelWrites writes = of_kind(Kind::strided);
    writes.object = kernel.parameters - 1;
    writes.tensors = kernel.tensors;
    writes.word = kernel.word;
    return writes;
  }
  return {};
}

/// PyTorch's kernels for TensorIterator: (int count, functor, array of addresses, ...).
KernelWrites of_iterator(Text signature, const std::vector<Text>& parameters) {
  constexpr Text kFill = "at::native::FillFunctor<";
  const bool contiguous = parameters.size() >= 3 &&
                          (has(parameters[2], "array<char*") || has(parameters[2], "Array<char*"));
  if (!contiguous) return {};
  if (parameters[1].substr(0, kFill.size()) == kFill)
    return of_type(Kind::fill, parameters[1].substr(kFill.size()));
  // If elements are converted by the kernel, the functor does not show their type.
  if (!has(signature, "WithCast<")) {
    if (const std::optional<Predicate> predicate = predicate_of(parameters[1])) {
      KernelWrites writes = of_type(Kind::predicate, "bool");
      writes.predicate = predicate;
      return writes;
    }
  }
  return of_type(Kind::elements, parameters[1]);
}

/// CUB's sum kernels: (elements, int*, count, ...).
KernelWrites of_sum(const std::vector<Text>& parameters) {
  constexpr Text kNonZero = "NonZeroOp<";
  if (parameters.size() < 3 || parameters[1] != "int*") return {};
  const bool counts = has(parameters[0], kNonZero);
  if (!counts && parameters[0] != "int*" && parameters[0] != "int const*") return {};
  KernelWrites writes = of_type(Kind::sum, counts ? after(parameters[0], kNonZero) : parameters[0]);
  writes.counts = counts;
  if (const ElementType* const type = first_type(parameters[2])) writes.count_bytes = type->bytes;
  return writes;
}

/// CUB's kernels that keep one element of each run of equal elements.
KernelWrites of_distinct(const std::vector<Text>& parameters, std::size_t result,
                         std::size_t count) {
  if (parameters.size() <= count || parameters[0].empty() || parameters[0].back() != '*') return {};
  KernelWrites writes = of_type(Kind::distinct, parameters[0]);
  writes.places = {0, result, count};
  if (const ElementType* const type = first_type(parameters[count]))
    writes.count_bytes = type->bytes;
  return writes;
}

/// Copies an argument's value. Returns false if there is none.
template <typename T>
bool argument(void* const* arguments, std::size_t number, T& value) {
  if (arguments == nullptr || arguments[number] == nullptr) return false;
  std::memcpy(static_cast<void*>(&value), arguments[number], sizeof value);
  return true;
}

std::uint64_t count_of(void* const* arguments, std::size_t number, std::size_t bytes) {
  std::uint64_t wide = 0;
  std::int32_t narrow = 0;
  if (bytes == sizeof wide) return argument(arguments, number, wide) ? wide : 0;
  return argument(arguments, number, narrow) && narrow > 0 ? static_cast<std::uint64_t>(narrow) : 0;
}

bool is_device_memory(const void* pointer) {
  Allocation allocation{};
  return find_allocation(pointer, allocation) && allocation.kind == MemoryKind::device;
}

void* word_at(const void* object, std::size_t offset) {
  void* word = nullptr;
  std::memcpy(static_cast<void*>(&word), static_cast<const char*>(object) + offset, sizeof word);
  return word;
}

/// Returns the first address of device memory in an object, or null.
void* first_address(const void* object, std::size_t bytes) {
  for (std::size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*))
    if (is_device_memory(word_at(object, at))) return word_at(object, at);
  return nullptr;
}

/// Returns the offset of the addresses in TensorIterator's functor for non-contiguous tensors. It
/// begins with an OffsetCalculator for up to 25 dimensions, with three numbers and one more per
/// tensor for each dimension.
std::size_t behind_calculator(std::size_t tensors) {
  constexpr std::size_t kDimensions = 25;
  constexpr std::size_t kNumber = 4;
  constexpr std::size_t kDivider = 3 * kNumber;
  const std::size_t calculator = kNumber + kDimensions * (kDivider + kNumber * tensors);
  return (calculator + sizeof(void*) - 1) / sizeof(void*) * sizeof(void*);
}

/// Returns true if there are `count` addresses of device memory at this offset.
bool has_addresses(const void* object, std::size_t bytes, std::size_t offset, std::size_t count) {
  if (offset + count * sizeof(void*) > bytes) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (!is_device_memory(word_at(object, offset + i * sizeof(void*)))) return false;
  return true;
}

/// Returns the output of such a functor: the first address if those of all tensors are found,
/// otherwise the one at a known offset after the calculator. The calculator's unused dimensions may
/// contain any data, even addresses, so only the exact offset is checked.
void* output_of_functor(const void* functor, std::size_t bytes, const KernelWrites& writes) {
  constexpr std::size_t kMaxTensors = 8;
  const bool all = writes.tensors == 0;
  for (std::size_t tensors = all ? kMaxTensors : writes.tensors; tensors > 0; --tensors) {
    const std::size_t place = behind_calculator(tensors) + (all ? 0 : writes.word * sizeof(void*));
    if (has_addresses(functor, bytes, place, all ? tensors : 1)) return word_at(functor, place);
  }
  return nullptr;
}

void add_forgotten(std::vector<Effect>& effects, void* to, std::size_t bytes) {
  if (to != nullptr && bytes != 0) effects.push_back({Kind::pointers, to, bytes});
}

/// Returns the size of an argument in bytes, or 0 if unknown.
std::size_t bytes_of(const KernelWrites& writes, std::size_t number) {
  return number < writes.argument_bytes.size() ? writes.argument_bytes[number] : 0;
}

void add_block(std::vector<Effect>& effects, void* to) {
  add_forgotten(effects, to, bytes_of_block_from(to));
}

void add_reduction(const KernelWrites& writes, void* const* arguments,
                   std::vector<Effect>& effects) {
  // ReduceOp contains the operation (empty), the neutral element (one byte), and the ReduceConfig,
  // which begins with the size of an element and the numbers of inputs and outputs. It ends with
  // one address of the inputs, two of outputs, three of buffers, and two more words.
  constexpr std::size_t kAtTheEnd = 8 * sizeof(void*);
  std::int32_t config[3] = {};
  const std::size_t size = bytes_of(writes, writes.object);
  const void* const operation = arguments[writes.object];
  if (operation == nullptr || size < sizeof config + sizeof config[0] + kAtTheEnd) return;
  const void* const from = word_at(operation, size - kAtTheEnd);
  void* const to = word_at(operation, size - kAtTheEnd + sizeof(void*));
  std::memcpy(config, static_cast<const char*>(operation) + sizeof config[0], sizeof config);
  const auto count = static_cast<std::uint64_t>(std::max(config[1], 0));
  const bool carried_out = writes.kind != Kind::reduced && writes.element == 1 && config[0] == 1 &&
                           count > 0 && config[2] == 1 && bytes_of_block_from(from) >= count;
  if (carried_out && is_device_memory(to)) {
    effects.push_back({writes.kind, to, 1, {}, from, count, writes});
    return;
  }
  add_block(effects, to);
  add_block(effects, word_at(operation, size - kAtTheEnd + 2 * sizeof(void*)));
}

void add_functor(const KernelWrites& writes, void* const* arguments, std::vector<Effect>& effects) {
  const void* const functor = arguments[writes.object];
  const std::size_t bytes = bytes_of(writes, writes.object);
  if (functor == nullptr || bytes < sizeof(void*)) return;
  // Without an offset calculator, the output's address is the first word.
  std::size_t place = 0;
  if (writes.word == KernelWrites::kLastWord) place = bytes - sizeof(void*);
  void* const there = word_at(functor, place);
  add_block(effects, is_device_memory(there) ? there : output_of_functor(functor, bytes, writes));
}

void add_lists(const TensorLists& lists, void* const* arguments, std::size_t blocks,
               std::vector<Effect>& effects) {
  for (const WrittenTensor& tensor : tensors_written(lists, arguments, blocks))
    add_forgotten(effects, tensor.address,
                  std::min(tensor.bytes, bytes_of_block_from(tensor.address)));
}

void add_anything(const KernelWrites& writes, void* const* arguments,
                  std::vector<Effect>& effects) {
  for (std::size_t i = 0; i < writes.argument_bytes.size(); ++i)
    if (arguments[i] != nullptr)
      add_block(effects, first_address(arguments[i], writes.argument_bytes[i]));
}

void add_predicate(const KernelWrites& writes, const Predicate& predicate, void* const* arguments,
                   std::vector<Effect>& effects) {
  // For more elements, the computation would cost more than the known values are worth.
  constexpr std::uint64_t kMax = 4 << 20;
  char* places[3] = {};
  std::memcpy(static_cast<void*>(places), arguments[2], (1 + predicate.tensors) * sizeof places[0]);
  const std::uint64_t count =
      std::min<std::uint64_t>(count_of(arguments, 0, 4), bytes_of_block_from(places[0]));
  const bool all =
      std::all_of(places + 1, places + 1 + predicate.tensors, [&](const char* operand) {
        return bytes_of_block_from(operand) / predicate.element >= count;
      });
  if (count > kMax || !all || arguments[1] == nullptr) {
    add_forgotten(effects, places[0], count);
    return;
  }
  const std::string functor(static_cast<const char*>(arguments[1]), functor_bytes(predicate));
  if (count != 0)
    effects.push_back(
        {Kind::predicate, places[0], count, functor, places[1], count, writes, places[2]});
}

bool is_zero(const char* element, const KernelWrites& kind) {
  const std::size_t last = kind.element - 1;
  for (std::size_t i = 0; i < last; ++i)
    if (element[i] != 0) return false;
  constexpr char kWithoutSign = 0x7F;
  return kind.floating ? (element[last] & kWithoutSign) == 0 : element[last] == 0;
}

/// Visits the elements of which at least a GPU model is known, as whole elements.
template <typename Take>
void each_element(const Effect& effect, Take take) {
  const std::size_t size = effect.element.element;
  const auto begin = reinterpret_cast<std::uintptr_t>(effect.from);
  std::uintptr_t next = begin;
  for (const ByteRange& range : known_of(effect.from, effect.count * size)) {
    std::uintptr_t at = std::max(next, range.begin - (range.begin - begin) % size);
    for (; at < range.end; at += size)
      take(reinterpret_cast<const char*>(at));  // NOLINT(performance-no-int-to-ptr)
    next = at;
  }
}

std::int64_t sum_of(const Effect& effect) {
  std::int64_t sum = 0;
  each_element(effect, [&](const char* element) {
    std::int32_t number = 0;
    if (effect.element.counts) {
      sum += is_zero(element, effect.element) ? 0 : 1;
    } else {
      std::memcpy(&number, element, sizeof number);
      sum += number;
    }
  });
  return sum;
}

std::int64_t distinct_in(const Effect& effect) {
  const std::size_t size = effect.element.element;
  const auto* const elements = static_cast<const char*>(effect.from);
  if (effect.count == 0 || contents_of(elements, effect.count * size).empty())
    return effect.count == 0 ? 0 : 1;
  std::int64_t count = 1;
  for (std::uint64_t i = 1; i < effect.count; ++i)
    count += std::memcmp(elements + i * size, elements + (i - 1) * size, size) == 0 ? 0 : 1;
  return count;
}

/// Returns true if `expected` is one of the known truth values.
bool is_among(const Effect& effect, bool expected) {
  bool found = false;
  each_element(effect, [&](const char* element) {
    found = found || is_zero(element, effect.element) != expected;
  });
  return found;
}

std::int64_t result_of(const Effect& effect) {
  switch (effect.kind) {
    case Kind::sum:
      return sum_of(effect);
    case Kind::distinct:
      return distinct_in(effect);
    case Kind::all:
      return is_among(effect, false) ? 0 : 1;
    case Kind::any:
      return is_among(effect, true) ? 1 : 0;
    default:
      return 0;
  }
}

/// Writes less than a page to device memory.
void put(void* to, const void* bytes, std::size_t size) {
  if (bytes_of_block_from(to) < size) return;
  std::memcpy(to, bytes, size);
  contents_written(to, size);
}

void fill(const Effect& effect) {
  discard_contents(effect.to, effect.bytes);
  const Text value = effect.value;
  if (std::all_of(value.begin(), value.end(), [](char byte) { return byte == 0; })) {
    contents_zeroed(effect.to, effect.bytes);
    return;
  }
  // The values of a large fill are not worth the cost.
  constexpr std::size_t kMax = std::size_t{64} << 20;
  if (effect.bytes > kMax || !has_room_for_contents(effect.bytes)) return;
  auto* const to = static_cast<char*>(effect.to);
  for (std::size_t at = 0; at < effect.bytes; at += value.size())
    std::memcpy(to + at, value.data(), value.size());
  contents_written(to, effect.bytes);
}

}  // namespace

KernelWrites writes_of(const std::string& signature) {
  const Text text = signature;
  const std::vector<Text> parameters = parameters_of(text);
  if (parameters.empty()) return of_kind(has(text, "(") ? Kind::nothing : Kind::anything);
  if (KernelWrites writes = of_functor(text, parameters); writes.kind != Kind::nothing)
    return writes;
  if (has(text, "elementwise_kernel<") && parameters[0] == "int")
    return of_iterator(text, parameters);
  if (has(text, "cub::DeviceReduceSingleTileKernel<") || has(text, "cub::DeviceReduceKernel<")) {
    const KernelWrites sum =
        has(text, "plus") || has(text, "::Sum") ? of_sum(parameters) : KernelWrites();
    if (sum.kind != Kind::nothing) return sum;
  }
  // (elements, flags, selected elements, int64_t* number selected, state, selection, equality,
  // count, ...).
  if (has(text, "cub::DeviceSelectSweepKernel<") && has(text, "equal_to<"))
    return of_distinct(parameters, 3, 7);
  // (keys, unique keys, values, sums, number of keys, state, int, equality, sum, count, ...).
  if (has(text, "cub::DeviceReduceByKeyKernel<") && has(text, "equal_to<"))
    return of_distinct(parameters, 4, 9);
  if (has(text, "reduce_kernel<") && has(parameters[0], "::ReduceOp<")) {
    const bool of_truth = has(text, "::ReduceOp<bool");
    if (of_truth && has(text, "::and_kernel_cuda(")) return of_type(Kind::all, "bool");
    if (of_truth && has(text, "::or_kernel_cuda(")) return of_type(Kind::any, "bool");
    return of_kind(Kind::reduced);
  }
  KernelWrites writes;
  if (has(text, "multi_tensor_apply_kernel<")) writes.lists = tensor_lists(parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (is_writable(parameters[i])) writes.places.push_back(i);
  writes.kind = writes.places.empty() ? Kind::nothing : Kind::pointers;
  if (writes.lists) writes.kind = Kind::lists;
  return writes;
}

bool needs_sizes(const KernelWrites& writes) {
  switch (writes.kind) {
    case Kind::strided:
    case Kind::reduced:
    case Kind::all:
    case Kind::any:
    case Kind::anything:
      return true;
    default:
      return false;
  }
}

std::vector<Effect> effects_of(const KernelWrites& writes, void* const* arguments,
                               std::size_t blocks) {
  std::vector<Effect> effects;
  if (arguments == nullptr) return effects;
  void* to = nullptr;
  void* from = nullptr;
  switch (writes.kind) {
    case Kind::nothing:
      break;
    case Kind::fill:
    case Kind::elements: {
      if (!argument(arguments, 2, to)) break;
      // An unknown element size is taken as the largest possible.
      constexpr std::size_t kMaxSize = 16;
      const std::size_t element = writes.element == 0 ? kMaxSize : writes.element;
      const std::size_t bytes =
          std::min<std::size_t>(count_of(arguments, 0, 4) * element, bytes_of_block_from(to));
      if (writes.kind == Kind::elements || writes.element == 0 || arguments[1] == nullptr)
        add_forgotten(effects, to, bytes);
      else if (bytes != 0)
        effects.push_back({Kind::fill, to, bytes / element * element,
                           std::string(static_cast<const char*>(arguments[1]), element)});
      break;
    }
    case Kind::predicate:
      if (writes.predicate) add_predicate(writes, *writes.predicate, arguments, effects);
      break;
    case Kind::strided:
      add_functor(writes, arguments, effects);
      break;
    case Kind::lists:
      if (writes.lists) add_lists(*writes.lists, arguments, blocks, effects);
      [[fallthrough]];  // Other arguments are pointers.
    case Kind::pointers:
      for (const std::size_t place : writes.places)
        if (argument(arguments, place, to)) add_block(effects, to);
      break;
    case Kind::anything:
      add_anything(writes, arguments, effects);
      break;
    case Kind::sum:
    case Kind::distinct: {
      const bool sum = writes.kind == Kind::sum;
      const std::size_t result = sum ? 1 : writes.places[1];
      // A pointer, or an iterator that contains one, before or after an operation without state.
      if (arguments[0] != nullptr) from = first_address(arguments[0], 2 * sizeof(void*));
      if (writes.element == 0 || from == nullptr || !argument(arguments, result, to)) break;
      const std::uint64_t count =
          count_of(arguments, sum ? 2 : writes.places[2], writes.count_bytes);
      if (bytes_of_block_from(from) / writes.element < count) break;
      effects.push_back(
          {writes.kind, to, sum ? std::size_t{4} : std::size_t{8}, {}, from, count, writes});
      break;
    }
    case Kind::reduced:
    case Kind::all:
    case Kind::any:
      add_reduction(writes, arguments, effects);
      break;
  }
  return effects;
}

void apply(const std::vector<Effect>& effects) {
  for (const Effect& effect : effects) {
    if (effect.kind == Kind::pointers) {
      discard_contents(effect.to, effect.bytes);
    } else if (effect.kind == Kind::fill) {
      fill(effect);
    } else if (const auto& predicate = effect.element.predicate;
               effect.kind == Kind::predicate && predicate) {
      evaluate_predicate(*predicate, effect.value.data(), static_cast<char*>(effect.to),
                         static_cast<const char*>(effect.from),
                         static_cast<const char*>(effect.other), effect.count);
    } else {
      const std::int64_t result = result_of(effect);
      discard_contents(effect.to, effect.bytes);
      if (result != 0) put(effect.to, &result, effect.bytes);  // Little-endian.
      if (result == 0) contents_zeroed(effect.to, effect.bytes);
    }
  }
}

}  // namespace optrace::emulated
