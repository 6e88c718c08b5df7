#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/ivalue.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "target/recorder/json_fingerprint.h"
#include "target/recorder/json_text.h"

namespace optrace_ops {

// Reading a tensor without calling an op: nothing here dispatches, calls Python or keeps a
// reference.

// The methods called here are not const members in PyTorch 2.6.
inline std::uint64_t raw(c10::DispatchKeySet keys) {
  return keys.raw_repr();
}
inline c10::ScalarType scalar_type(caffe2::TypeMeta type) {
  return type.toScalarType();
}

/// What a record contains of a call.
enum class Precision : std::uint8_t { everything = 0, no_values = 1, no_shapes = 2 };

/// Gives access to protected members of TensorImpl.
struct TensorMembers : c10::TensorImpl {
  static bool custom_sizes(const c10::TensorImpl& tensor) {
    return (tensor.*(&TensorMembers::matches_policy))(SizesStridesPolicy::CustomSizes);
  }
  static bool custom_strides(const c10::TensorImpl& tensor) {
    return (tensor.*(&TensorMembers::matches_policy))(SizesStridesPolicy::CustomStrides);
  }
  static std::optional<c10::Device> device(const c10::TensorImpl& tensor) {
    return tensor.*(&TensorMembers::device_opt_);
  }
  static std::int64_t offset(const c10::TensorImpl& tensor) {
    return tensor.*(&TensorMembers::storage_offset_);
  }
};

/// A tensor's description, valid as long as the tensor is.
struct TensorFacts {
  explicit TensorFacts(const c10::TensorImpl& tensor);

  /// Writes the key `tensor` with its object.
  void write(JsonText& json, Precision precision) const;
  void write(JsonFingerprint& fingerprint, Precision precision) const;

  /// Writes the members of that object, except `keys`.
  void write_members(JsonText& json, bool shaped) const;

  /// Returns true if the tensor's values are those in its storage, for every op.
  bool is_plain() const;

  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
  std::optional<c10::Device> device;
  bool requires_grad;
  bool wrapped_number;  ///< A Python number that became a tensor.
  bool has_shape = false;
  bool has_strides = false;
  c10::IntArrayRef shape;
  c10::IntArrayRef strides;
};

/// Returns the name in Python's spelling.
std::string dtype_name(c10::ScalarType type);

/// Returns the tensor of a value that is one; null for an undefined tensor, which represents a
/// missing value.
const c10::TensorImpl* tensor_in(const c10::IValue& value);

/// Returns the tensor's storage, or null if it has none.
const c10::StorageImpl* storage_of(const c10::TensorImpl& tensor);

}  // namespace optrace_ops
