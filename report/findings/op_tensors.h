#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// A tensor among the arguments of an op's call, from its op record.
struct OpTensor {
  std::string name;  ///< Of the argument.
  std::string device;
  std::string dtype;
  std::vector<std::uint64_t> shape, strides;  ///< Empty if they are not in the record.
  bool known_shape = false;                   ///< The record has a shape.
  bool requires_grad = false;
  bool sparse = false;
};

/// One kind of calls of an op: those with the same arguments.
struct OpCalls {
  std::uint64_t calls = 0;
  std::vector<OpTensor> tensors;
};

/// Returns the kinds of calls of a dispatcher frame with an op record; empty without one.
std::vector<OpCalls> op_calls(const Frame& frame);

/// Returns the tensor argument of that name; null if there is none.
const OpTensor* tensor_named(const OpCalls& call, std::string_view name);

/// Returns the number of elements of a tensor with a known shape.
std::uint64_t elements_of(const OpTensor& tensor);

/// Returns the number of calls of an op whose results are new or views, and require gradients:
/// those that add to autograd's graph.
std::uint64_t calls_recording_graph(const Frame& frame);

/// Returns true if the tensor's elements lie in memory without gaps, in the order of its
/// dimensions.
bool is_contiguous(const OpTensor& tensor);

/// Returns true if they lie there without gaps in another order.
bool is_permuted(const OpTensor& tensor);

/// The order of an image's dimensions in memory.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last, other };

/// Returns `other` unless the tensor has four or five dimensions and is in exactly one of the other
/// two formats.
MemoryFormat memory_format(const OpTensor& tensor);

}  // namespace optrace
