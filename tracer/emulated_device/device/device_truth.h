#pragma once

// Truth values that PyTorch's kernels make of elements: comparisons, and what is made of them. They
// decide what a program does next more often than any other values, so they are worked out of what
// memory holds.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tracer/emulated_device/device/device.h"

namespace optrace::emulated {

/// How one number stands to another.
enum class Order { less, equal, greater, unordered };

struct TruthKernel {
  enum class Operation {
    equality,     ///< The functor begins with a number. 0: ==, 1: !=.
    comparison,   ///< Likewise. 0: >=, 1: >, 2: <=, 3: <.
    conjunction,  ///< Of truth values, as the two below.
    disjunction,
    negation,
  };
  Operation operation = Operation::equality;
  std::size_t element = 1;                                        ///< Bytes of an operand.
  std::size_t tensors = 1;                                        ///< Among the operands.
  Order (*order)(const char* left, const char* right) = nullptr;  ///< Of operands.
};

/// By the name of an elementwise kernel's functor; nothing for one that makes anything else, or
/// makes it of elements whose type isn't known.
OPTRACE_DEVICE_EXPORT std::optional<TruthKernel> truth_kernel(std::string_view functor);

/// Bytes of such a kernel's functor that must be known: none, or its number and the operand that is
/// no tensor, at the end, if there is one.
OPTRACE_DEVICE_EXPORT std::size_t functor_bytes(const TruthKernel& kernel);

/// Carries the kernel out on tensors of `count` elements that lie side by side. An operand that
/// isn't known is taken to be equal to the other tensor's, or for zero; what comes of it is
/// presumed, unless the other operand alone decides. `right` is null where there is one tensor.
OPTRACE_DEVICE_EXPORT void make_truth(const TruthKernel& kernel, const char* functor, char* to,
                                      const char* left, const char* right, std::uint64_t count);

}  // namespace optrace::emulated
