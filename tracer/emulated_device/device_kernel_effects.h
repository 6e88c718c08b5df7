#pragma once

// What a launch does to device memory although kernels are not executed. What a kernel writes is
// forgotten, so that nothing stale is read; a few kernels whose result PyTorch's host code reads
// back, to decide on sizes and ways, are carried out on what memory holds.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tracer/emulated_device/device.h"
#include "tracer/emulated_device/device_truth.h"

namespace optrace::emulated {

/// How a kernel's arguments tell what it writes, by its name: the host knows nothing else.
struct KernelWrites {
  enum class Kind {
    nothing,   ///< Nothing that can be told, as of names without a signature.
    fill,      ///< Argument 0: the number of elements (int), 1: the value, 2: where they are.
    elements,  ///< Argument 0: the number of elements (int), 2: where they are.
    truth,     ///< Argument 0: the number of elements (int), 1: the functor, 2: where the truth
               ///< values and the operands are.
    strided,   ///< Argument 1 is a functor that knows where the elements are.
    sum,       ///< Argument 0: the elements, 1: the result (int), 2: how many there are.
    distinct,  ///< Elements are counted that differ from the one before: `places`.
    all,       ///< Argument 0 is PyTorch's ReduceOp. What isn't known decides nothing: all of it
               ///< is true, and none of it is.
    any,
    pointers,  ///< Those arguments of `places` are pointers to what isn't constant.
  };
  Kind kind = Kind::nothing;
  std::size_t element = 0;      ///< Bytes of an element; 0: not known.
  bool floating = false;        ///< Elements are floating-point numbers, whose zero has two signs.
  bool counts = false;          ///< Of sums: elements that aren't zero count as one each.
  std::size_t count_bytes = 4;  ///< Of the argument that says how many elements there are.
  /// Of the argument that is an object, in strided, all and any: 0 where it isn't known. Whoever
  /// knows the kernel's image fills it in.
  std::size_t argument_bytes = 0;
  std::vector<std::size_t> places;  ///< Of distinct: the elements', the result's and the number's.
  std::optional<TruthKernel> truth = std::nullopt;  ///< What makes truth values.
};

/// By a demangled name with its signature: "void f<float>(int, float*)".
OPTRACE_DEVICE_EXPORT KernelWrites writes_of(const std::string& signature);

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

/// Of a launch with those arguments, as cudaLaunchKernel takes them. The arguments are only looked
/// at during the call.
OPTRACE_DEVICE_EXPORT std::vector<Effect> effects_of(const KernelWrites& writes,
                                                     void* const* arguments);

OPTRACE_DEVICE_EXPORT void apply(const std::vector<Effect>& effects);

}  // namespace optrace::emulated
