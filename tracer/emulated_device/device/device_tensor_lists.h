#pragma once

// PyTorch's kernels that work on lists of tensors: _foreach_ ops and fused optimizers. They are
// given the tensors' addresses in a struct.

#include <cstddef>
#include <optional>
#include <vector>

#include "tracer/emulated_device/device/device_signatures.h"

namespace optrace::emulated {

/// How multi_tensor_apply_kernel's first argument lays the lists out, and which are written.
struct TensorLists {
  std::size_t lists;                 ///< Of tensors; all have as many.
  std::size_t slots;                 ///< Tensors that a list has room for.
  std::size_t between;               ///< Bytes between the tensors' sizes and the blocks' tensors.
  std::size_t element;               ///< Bytes; 0: not known.
  std::vector<std::size_t> written;  ///< Lists, by number.
  /// An argument without which gradients, the second list, are not written.
  std::optional<std::size_t> gradient_scale;
};

/// By the types of a kernel's parameters; nothing where they tell of no such struct.
OPTRACE_DEVICE_EXPORT std::optional<TensorLists> tensor_lists(const std::vector<Text>& parameters);

struct WrittenTensor {
  void* address;
  std::size_t bytes;
};

/// What a launch with so many blocks writes, as its arguments say: cudaLaunchKernel's.
OPTRACE_DEVICE_EXPORT std::vector<WrittenTensor> tensors_written(const TensorLists& lists,
                                                                 void* const* arguments,
                                                                 std::size_t blocks);

}  // namespace optrace::emulated
