#pragma once

// What a launch does to device memory although kernels are not executed. What a kernel writes is
// forgotten, so that nothing stale is read; a few kernels whose result PyTorch's host code reads
// back, to decide on sizes and ways, are carried out on what memory holds.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tracer/emulated_device/device/device.h"
#include "tracer/emulated_device/device/device_tensor_lists.h"
#include "tracer/emulated_device/device/device_truth.h"

namespace optrace::emulated {

/// How a kernel's arguments tell what it writes, by its name: the host knows nothing else.
struct KernelWrites {
  enum class Kind {
    nothing,   ///< Nothing that can be told, as of names without a signature.
    fill,      ///< Argument 0: the number of elements (int), 1: the value, 2: where they are.
    elements,  ///< Argument 0: the number of elements (int), 2: where they are.
    truth,     ///< Argument 0: the number of elements (int), 1: the functor, 2: where the truth
               ///< values and the operands are.
    strided,   ///< The object is a functor that knows where the elements are.
    lists,     ///< Argument 0 has the addresses of lists of tensors.
    reduced,   ///< The object is PyTorch's ReduceOp, which knows where the result is.
    sum,       ///< Argument 0: the elements, 1: the result (int), 2: how many there are.
    distinct,  ///< Elements are counted that differ from the one before: `places`.
    all,       ///< As reduced. What isn't known decides nothing: all of it is true, and none of it
               ///< is.
    any,
    pointers,  ///< Those arguments of `places` begin with pointers to what isn't constant.
    anything,  ///< The name doesn't say what the arguments are: of each, the first word that is an
               ///< address of device memory may be written to.
  };
  Kind kind = Kind::nothing;
  std::size_t element = 0;      ///< Bytes of an element; 0: not known.
  bool floating = false;        ///< Elements are floating-point numbers, whose zero has two signs.
  bool counts = false;          ///< Of sums: elements that aren't zero count as one each.
  std::size_t count_bytes = 4;  ///< Of the argument that says how many elements there are.
  std::size_t object = 0;       ///< Which argument is the object, in strided, reduced, all and any.
  std::size_t tensors = 0;  ///< Of strided: that the functor has places of; 0: as many as it has.
  /// Of strided, with `tensors`: which word behind the places' calculator is the output's address;
  /// kLastWord: the functor's last.
  std::size_t word = 0;
  static constexpr std::size_t kLastWord = ~std::size_t{0};
  /// Bytes of each argument; none where they aren't known. Whoever knows the kernel's image fills
  /// them in, where needs_sizes() says so.
  std::vector<std::size_t> argument_bytes;
  std::vector<std::size_t> places;  ///< Of distinct: the elements', the result's and the number's.
  std::optional<TruthKernel> truth = std::nullopt;  ///< What makes truth values.
  std::optional<TensorLists> lists = std::nullopt;
};

/// By a demangled name with its signature: "void f<float>(int, float*)"; or by one without, as
/// Triton's kernels have.
OPTRACE_DEVICE_EXPORT KernelWrites writes_of(const std::string& signature);

/// Whether the arguments' sizes are looked at.
OPTRACE_DEVICE_EXPORT bool needs_sizes(const KernelWrites& writes);

/// A change of device memory that a launch makes.
struct Effect {
  KernelWrites::Kind
      kind;  ///< fill, truth, sum, distinct, all, any; pointers: what is there is forgotten.
  void* to;
  std::size_t bytes;            ///< Of what is forgotten or filled, or of the result.
  std::string value = {};       ///< Of fills: an element; of truth values: the functor.
  const void* from = nullptr;   ///< The elements of which there is a result.
  std::uint64_t count = 0;      ///< How many.
  KernelWrites element = {};    ///< What they are.
  const void* other = nullptr;  ///< Of truth values: the second operand; null if there is none.
};

/// Of a launch of so many blocks with those arguments, as cudaLaunchKernel takes them. The
/// arguments are only looked at during the call.
OPTRACE_DEVICE_EXPORT std::vector<Effect> effects_of(const KernelWrites& writes,
                                                     void* const* arguments, std::size_t blocks);

OPTRACE_DEVICE_EXPORT void apply(const std::vector<Effect>& effects);

}  // namespace optrace::emulated
