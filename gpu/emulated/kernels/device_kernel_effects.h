#pragma once

// Effects of a launch on device memory, although kernels are not executed. The contents that a
// kernel overwrites are forgotten, so that no stale values are read. A few kernels whose result
// PyTorch's host code reads back to decide on sizes and code paths are executed on the contents of
// memory.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/kernels/device_tensor_lists.h"
#include "gpu/emulated/kernels/predicate_evaluation.h"

namespace optrace::emulated {

/// Description of the memory that a kernel writes in terms of its arguments. It is derived from the
/// kernel's name, the only information available on the host.
struct KernelWrites {
  enum class Kind {
    nothing,  ///< Unknown, for example a name without a signature.
    /// Argument 0 is the number of elements (int), 1 the value, 2 the address of the elements.
    fill,
    /// Argument 0 is the number of elements (int), 2 their address.
    elements,
    /// Argument 0 is the number of elements (int), 1 the functor, 2 the addresses of the truth
    /// values and the operands.
    predicate,
    strided,  ///< The object is a functor that contains the address of the elements.
    lists,    ///< Argument 0 contains the addresses of lists of tensors.
    reduced,  ///< The object is PyTorch's ReduceOp, which contains the address of the result.
    /// Argument 0 is the address of the elements, 1 that of the result (int), 2 the number of
    /// elements.
    sum,
    /// Counts the elements that differ from the previous one; `places` lists the arguments.
    distinct,
    /// Conjunction, with the object of `reduced`. Unknown elements are ignored, so the result
    /// without known elements is true.
    all,
    any,       ///< Disjunction, like `all`; the result without known elements is false.
    pointers,  ///< The arguments listed in `places` begin with pointers to non-const.
    /// The name has no signature: for each argument, the first word that is an address of device
    /// memory is taken as written.
    anything,
  };
  Kind kind = Kind::nothing;
  std::size_t element = 0;      ///< Size of an element in bytes; 0: unknown.
  bool floating = false;        ///< True for floating-point elements, whose zero has two signs.
  bool counts = false;          ///< For `sum`: each element that is not zero counts as one.
  std::size_t count_bytes = 4;  ///< Size in bytes of the argument that is the number of elements.
  /// Index of the argument that is the object, for `strided`, `reduced`, `all` and `any`.
  std::size_t object = 0;
  /// For `strided`: the number of tensor addresses in the functor; 0: determined from the functor.
  std::size_t tensors = 0;
  /// For `strided` with `tensors`: index of the word after the offset calculator that is the
  /// output's address; kLastWord: the functor's last word.
  std::size_t word = 0;
  static constexpr std::size_t kLastWord = ~std::size_t{0};
  /// Size of each argument in bytes; empty if unknown. If needs_sizes() is true, the caller sets it
  /// from the kernel's image.
  std::vector<std::size_t> argument_bytes;
  /// For `distinct`: indexes of the arguments for the elements, the result and the count.
  std::vector<std::size_t> places;
  /// For `predicate`: the kernel that computes truth values.
  std::optional<Predicate> predicate = std::nullopt;
  std::optional<TensorLists> lists = std::nullopt;
};

/// Derives the description from a demangled name with its signature, "void f<float>(int, float*)",
/// or from a name without a signature, such as that of a Triton kernel.
OPTRACE_DEVICE_EXPORT KernelWrites writes_of(const std::string& signature);

/// Returns true if argument_bytes is used.
OPTRACE_DEVICE_EXPORT bool needs_sizes(const KernelWrites& writes);

/// A change of device memory made by a launch.
struct Effect {
  /// One of fill, predicate, sum, distinct, all, any; or pointers: the contents are forgotten.
  KernelWrites::Kind kind;
  void* to;
  std::size_t bytes;            ///< Number of bytes forgotten or filled, or size of the result.
  std::string value = {};       ///< For fills: an element; for truth values: the functor.
  const void* from = nullptr;   ///< The elements that the result is computed from.
  std::uint64_t count = 0;      ///< Number of elements.
  KernelWrites element = {};    ///< Type of the elements.
  const void* other = nullptr;  ///< For truth values: the second operand, or null.
};

/// Returns the effects of a launch of `blocks` blocks with the arguments of cudaLaunchKernel, which
/// are accessed only during the call.
OPTRACE_DEVICE_EXPORT std::vector<Effect> effects_of(const KernelWrites& writes,
                                                     void* const* arguments, std::size_t blocks);

OPTRACE_DEVICE_EXPORT void apply(const std::vector<Effect>& effects);

}  // namespace optrace::emulated
