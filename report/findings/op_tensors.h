#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "report/model/op_call.h"
#include "report/model/report.h"

namespace optrace {

/// Returns the tensor argument of that name, of a list its first tensor; null if there is none.
const TensorFacts* tensor_argument(const OpCalls& calls, std::string_view name);

/// Returns true if the frame's most frequent kind of calls has this value for an argument.
bool has_argument(const Frame& frame, std::string_view name, bool value);

/// Calls by device; the device is empty if it is not known.
using CallsByDevice = std::map<std::string, double>;

/// Returns the device on which calls work: that of the first tensor which is not on the CPU.
std::string device_of(const OpCalls& calls);

CallsByDevice on_unknown_device(std::uint64_t calls);

/// Returns `calls` calls by the devices of all calls of an op.
CallsByDevice share_by_device(const Frame& op, std::uint64_t calls);

/// Returns the number of elements of a tensor; 0 if its shape is unknown.
std::uint64_t elements_of(const TensorFacts& tensor);

bool is_sparse(const TensorFacts& tensor);

/// Returns the number of calls of an op whose results are new or views, and require gradients:
/// those that add to autograd's graph.
std::uint64_t calls_recording_graph(const Frame& frame);

/// Returns true if the tensor's elements lie in memory without gaps, in the order of its
/// dimensions.
bool is_contiguous(const TensorFacts& tensor);

/// Returns true if they lie there without gaps in another order.
bool is_permuted(const TensorFacts& tensor);

/// The order of an image's dimensions in memory.
enum class MemoryFormat : std::uint8_t { contiguous, channels_last, other };

/// Returns `other` unless the tensor has four or five dimensions and is in exactly one of the other
/// two formats.
MemoryFormat memory_format(const TensorFacts& tensor);

}  // namespace optrace
