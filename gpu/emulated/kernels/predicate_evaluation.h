#pragma once

// Boolean results of PyTorch's elementwise kernels: comparisons and logical operations. They
// influence a program's control flow more than other values, so they are computed from the contents
// of memory.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {

/// Result of comparing two numbers.
enum class Order { less, equal, greater, unordered };

struct Predicate {
  enum class Operation {
    equality,     ///< The functor begins with a number. 0: ==, 1: !=.
    comparison,   ///< The functor begins with a number. 0: >=, 1: >, 2: <=, 3: <.
    conjunction,  ///< Logical operation on truth values; the following likewise.
    disjunction,
    negation,
  };
  Operation operation = Operation::equality;
  std::size_t element = 1;  ///< Size of an operand in bytes.
  /// Number of operands that are tensors.
  std::size_t tensors = 1;
  Order (*order)(const char* left, const char* right) = nullptr;  ///< Compares two operands.
};

/// Derives the kernel from the name of an elementwise kernel's functor. Returns nothing for other
/// operations or unknown element types.
OPTRACE_DEVICE_EXPORT std::optional<Predicate> predicate_of(std::string_view functor);

/// Number of functor bytes that must be known: none, or those of the operation's number and, at the
/// end, of the operand that is not a tensor, if any.
OPTRACE_DEVICE_EXPORT std::size_t functor_bytes(const Predicate& kernel);

/// Executes the kernel on contiguous tensors of `count` elements. An unknown operand is taken as
/// equal to the other tensor's, or as zero; the result is then marked as presumed, unless the other
/// operand alone determines it. `right` is null if there is only one tensor.
OPTRACE_DEVICE_EXPORT void evaluate_predicate(const Predicate& kernel, const char* functor,
                                              char* to, const char* left, const char* right,
                                              std::uint64_t count);

}  // namespace optrace::emulated
