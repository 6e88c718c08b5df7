#include "gpu/emulated/kernels/predicate_evaluation.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gpu/emulated/kernels/device_signatures.h"
#include "gpu/emulated/memory/device_contents.h"

namespace optrace::emulated {
namespace {

template <typename Number>
Order order_of(Number left, Number right) {
  if (left < right) return Order::less;
  if (left > right) return Order::greater;
  return left == right ? Order::equal : Order::unordered;
}

template <typename Number>
Number number_at(const char* place) {
  Number number{};
  std::memcpy(&number, place, sizeof number);
  return number;
}

template <typename Number>
Order order(const char* left, const char* right) {
  return order_of(number_at<Number>(left), number_at<Number>(right));
}

/// Complex numbers are equal or unordered.
template <typename Number>
Order order_of_complex(const char* left, const char* right) {
  const bool equal = order<Number>(left, right) == Order::equal &&
                     order<Number>(left + sizeof(Number), right + sizeof(Number)) == Order::equal;
  return equal ? Order::equal : Order::unordered;
}

/// Compares 16-bit floating-point numbers with this exponent size. Apart from the sign, the order
/// of their bits is that of the numbers.
template <int ExponentBits>
Order order_of_half(const char* left, const char* right) {
  constexpr int kWithoutSign = 0x7FFF;
  constexpr int kInfinity = kWithoutSign >> (15 - ExponentBits) << (15 - ExponentBits);
  const auto signed_bits = [](const char* place) {
    const int bits = number_at<std::int16_t>(place);
    return bits < 0 ? -(bits & kWithoutSign) : bits;
  };
  const int a = signed_bits(left);
  const int b = signed_bits(right);
  const bool numbers = std::max(std::max(a, -a), std::max(b, -b)) <= kInfinity;
  return numbers ? order_of(a, b) : Order::unordered;
}

struct Elements {
  Text name;
  std::size_t bytes;
  Order (*order)(const char* left, const char* right);
};

constexpr int kHalfExponent = 5;
constexpr int kBfloatExponent = 8;
constexpr Elements kElements[] = {
    {"double", 8, order<double>},
    {"float", 4, order<float>},
    {"c10::Half", 2, order_of_half<kHalfExponent>},
    {"c10::BFloat16", 2, order_of_half<kBfloatExponent>},
    {"long", 8, order<std::int64_t>},
    {"int", 4, order<std::int32_t>},
    {"short", 2, order<std::int16_t>},
    {"signed char", 1, order<std::int8_t>},
    {"unsigned char", 1, order<std::uint8_t>},
    {"unsigned short", 2, order<std::uint16_t>},
    {"unsigned int", 4, order<std::uint32_t>},
    {"unsigned long", 8, order<std::uint64_t>},
    {"bool", 1, order<std::uint8_t>},
    {"c10::complex<float>", 8, order_of_complex<float>},
    {"c10::complex<double>", 16, order_of_complex<double>},
};

/// Finds the first type of a template's argument list: float for "float> >(".
const Elements* elements_of(Text arguments) {
  for (const Elements& elements : kElements) {
    if (!begins(arguments, elements.name)) continue;
    const Text rest = arguments.substr(elements.name.size());
    if (begins(rest, ">") || begins(rest, " >")) return &elements;
  }
  return nullptr;
}

std::optional<Predicate> of_elements(Predicate::Operation operation, Text functor, Text name,
                                     std::size_t tensors) {
  const std::size_t at = functor.find(name);
  const Elements* const elements = elements_of(functor.substr(at + name.size()));
  if (elements == nullptr) return std::nullopt;
  return Predicate{operation, elements->bytes, tensors, elements->order};
}

std::optional<Predicate> of_truth(Predicate::Operation operation, std::size_t tensors) {
  return Predicate{operation, 1, tensors, nullptr};
}

std::size_t offset_of_scalar(const Predicate& kernel) {
  return std::max(sizeof(int), kernel.element);
}

bool holds(Predicate::Operation operation, int number, Order order) {
  if (operation == Predicate::Operation::equality) return (order == Order::equal) == (number == 0);
  switch (number) {
    case 0:
      return order == Order::greater || order == Order::equal;
    case 1:
      return order == Order::greater;
    case 2:
      return order == Order::less || order == Order::equal;
    default:
      return order == Order::less;
  }
}

/// Returns for each element if all of its bytes are known.
std::vector<bool> known_elements(const char* elements, std::size_t size, std::uint64_t count) {
  std::vector<bool> known(count);
  const auto begin = reinterpret_cast<std::uintptr_t>(elements);
  for (const ByteRange& range : known_of(elements, count * size)) {
    const std::uint64_t first = (range.begin - begin + size - 1) / size;
    const std::uint64_t end = (range.end - begin) / size;
    for (std::uint64_t i = first; i < end; ++i) known[i] = true;
  }
  return known;
}

struct Truth {
  bool value;
  bool known;
};

/// `right` is null if that operand is in the functor.
Truth compared(const Predicate& kernel, const char* functor, const char* left, const char* right,
               bool known) {
  const int number = number_at<int>(functor);
  if (right == nullptr)
    right = functor + offset_of_scalar(kernel);
  else if (!known)
    right = left;
  return {holds(kernel.operation, number, kernel.order(left, right)), known};
}

Truth combined(Predicate::Operation operation, Truth left, Truth right) {
  if (operation == Predicate::Operation::negation) return {!left.value, left.known};
  const bool deciding = operation == Predicate::Operation::disjunction;
  const bool value = deciding ? left.value || right.value : left.value && right.value;
  const bool decided =
      (left.known && left.value == deciding) || (right.known && right.value == deciding);
  return {value, decided || (left.known && right.known)};
}

void put_truth(char* to, const std::vector<Truth>& values) {
  discard_contents(to, values.size());
  for (std::size_t i = 0; i < values.size(); ++i) to[i] = values[i].value ? 1 : 0;
  for (std::size_t from = 0; from < values.size();) {
    std::size_t end = from + 1;
    while (end < values.size() && values[end].known == values[from].known) ++end;
    (values[from].known ? contents_written : contents_presumed)(to + from, end - from);
    from = end;
  }
}

}  // namespace

std::optional<Predicate> predicate_of(Text functor) {
  constexpr Text kEquality = "CompareEqFunctor<";
  constexpr Text kComparison = "at::native::(anonymous namespace)::CompareFunctor<";
  constexpr Text kWithScalar = "at::native::compare_scalar_kernel<";
  constexpr Text kBinary = "at::native::BinaryFunctor<";
  constexpr Text kUnary[] = {"at::native::AUnaryFunctor<", "at::native::BUnaryFunctor<"};
  constexpr Text kOfTruth = "at::native::BinaryFunctor<bool, bool, bool, ";
  constexpr Text kNegations[] = {"at::native::bitwise_not_kernel_cuda(",
                                 "at::native::logical_not_kernel_cuda("};
  if (has(functor, kEquality)) {
    if (begins(functor, kBinary))
      return of_elements(Predicate::Operation::equality, functor, kEquality, 2);
    if (begins(functor, kUnary[0]) || begins(functor, kUnary[1]))
      return of_elements(Predicate::Operation::equality, functor, kEquality, 1);
    return std::nullopt;
  }
  if (begins(functor, kComparison))
    return of_elements(Predicate::Operation::comparison, functor, kComparison, 2);
  if (begins(functor, kWithScalar))
    return of_elements(Predicate::Operation::comparison, functor, kWithScalar, 1);
  if (begins(functor, kOfTruth)) {
    for (const Text name :
         {"BitwiseAndFunctor<bool>", "MulFunctor<bool>", "logical_and_kernel_cuda"})
      if (has(functor, name)) return of_truth(Predicate::Operation::conjunction, 2);
    for (const Text name : {"BitwiseOrFunctor<bool>", "logical_or_kernel_cuda"})
      if (has(functor, name)) return of_truth(Predicate::Operation::disjunction, 2);
  }
  for (const Text name : kNegations)
    if (begins(functor, name) && has(functor, "{lambda(bool)#1}"))
      return of_truth(Predicate::Operation::negation, 1);
  return std::nullopt;
}

std::size_t functor_bytes(const Predicate& kernel) {
  if (kernel.order == nullptr) return 0;
  return kernel.tensors == 1 ? offset_of_scalar(kernel) + kernel.element : sizeof(int);
}

void evaluate_predicate(const Predicate& kernel, const char* functor, char* to, const char* left,
                        const char* right, std::uint64_t count) {
  const std::size_t size = kernel.element;
  const std::vector<bool> left_known = known_elements(left, size, count);
  const std::vector<bool> right_known =
      right == nullptr ? left_known : known_elements(right, size, count);
  std::vector<Truth> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* const a = left + i * size;
    const char* const b = right == nullptr ? nullptr : right + i * size;
    const bool known[] = {left_known[i], right_known[i]};
    values[i] = kernel.order != nullptr ? compared(kernel, functor, a, b, known[0] && known[1])
                                        : combined(kernel.operation, {*a != 0, known[0]},
                                                   {b != nullptr && *b != 0, known[1]});
  }
  put_truth(to, values);
}

}  // namespace optrace::emulated
