#pragma once

// PyTorch's kernels that process lists of tensors: _foreach_ ops and fused optimizers. They take
// the tensors' addresses in a struct.

#include <cstddef>
#include <optional>
#include <vector>

#include "gpu/emulated/kernels/device_signatures.h"

namespace optrace::emulated {

/// Layout of the lists in multi_tensor_apply_kernel's first argument, and the lists that are
/// written.
struct TensorLists {
  std::size_t lists;  ///< Number of lists, which all have the same length.
  std::size_t slots;  ///< Capacity of a list in tensors.
  /// Number of bytes between the tensors' sizes and the tensor index of each block.
  std::size_t between;
  std::size_t element;               ///< Size in bytes; 0: unknown.
  std::vector<std::size_t> written;  ///< Indexes of the written lists.
  /// Index of an argument; if that is null, gradients (the second list) are not written.
  std::optional<std::size_t> gradient_scale;
};

/// Derives the layout from the types of a kernel's parameters. Returns nothing if they contain no
/// such struct.
OPTRACE_DEVICE_EXPORT std::optional<TensorLists> tensor_lists(const std::vector<Text>& parameters);

struct WrittenTensor {
  void* address;
  std::size_t bytes;
};

/// Returns the tensors written by a launch of `blocks` blocks with cudaLaunchKernel's arguments.
OPTRACE_DEVICE_EXPORT std::vector<WrittenTensor> tensors_written(const TensorLists& lists,
                                                                 void* const* arguments,
                                                                 std::size_t blocks);

}  // namespace optrace::emulated
