#include "target/op_recorder/tensors/tensor_facts.h"

#include <unordered_map>

namespace optrace_ops {
namespace {

void write_sizes(JsonText& json, bool known, c10::IntArrayRef sizes) {
  if (!known) {
    json.null();
    return;
  }
  json.open('[');
  for (const std::int64_t size : sizes) json.number(size);
  json.close(']');
}

}  // namespace

TensorFacts::TensorFacts(const c10::TensorImpl& tensor)
    : keys(tensor.key_set()),
      dtype(tensor.dtype()),
      device(TensorMembers::device(tensor)),
      requires_grad(tensor.requires_grad()),
      wrapped_number(tensor.is_wrapped_number()) {
  if (tensor.has_symbolic_sizes_strides()) return;
  // A tensor with its own policy may call Python or compute. PyTorch's own wrappers, however,
  // store valid values in the usual place.
  const bool wrapper =
      keys.has(c10::DispatchKey::Functionalize) || keys.has(c10::DispatchKey::FuncTorchBatched);
  has_shape = wrapper || !TensorMembers::custom_sizes(tensor);
  has_strides = wrapper || !TensorMembers::custom_strides(tensor);
  if (has_shape) shape = tensor.sizes_default();
  if (has_strides) strides = tensor.strides_default();
}

void TensorFacts::write(JsonFingerprint& json, Precision precision) const {
  Fingerprint& fingerprint = json.fingerprint();
  fingerprint.add(raw(keys));
  const std::uint64_t where =
      device ? (static_cast<std::uint64_t>(static_cast<std::uint8_t>(device->type())) << 8U) |
                   static_cast<std::uint8_t>(device->index())
             : 0xFFFF;
  const std::uint64_t type =
      dtype.isScalarType() ? static_cast<std::uint64_t>(scalar_type(dtype)) : 0xFF;
  fingerprint.add((where << 48U) | (type << 32U) |
                  (static_cast<std::uint64_t>(requires_grad) << 31U) |
                  (static_cast<std::uint64_t>(has_shape) << 30U) |
                  (static_cast<std::uint64_t>(has_strides) << 29U) |
                  (static_cast<std::uint64_t>(wrapped_number) << 28U) | shape.size());
  if (precision >= Precision::no_shapes) return;
  for (const std::int64_t size : shape) fingerprint.add(static_cast<std::uint64_t>(size));
  for (const std::int64_t stride : strides) fingerprint.add(static_cast<std::uint64_t>(stride));
}

void TensorFacts::write(JsonText& json, Precision precision) const {
  json.key("tensor");
  json.open('{');
  write_members(json, precision < Precision::no_shapes);
  json.key("keys");
  json.number(raw(keys));
  if (wrapped_number) {
    json.key("wrapped_number");
    json.boolean(true);
  }
  json.close('}');
}

void TensorFacts::write_members(JsonText& json, bool shaped) const {
  json.key("shape");
  write_sizes(json, has_shape && shaped, shape);
  json.key("strides");
  write_sizes(json, has_strides && shaped, strides);
  json.key("dtype");
  if (dtype.isScalarType())
    json.string(dtype_name(scalar_type(dtype)));
  else
    json.null();
  json.key("device");
  if (device)
    json.string(device->str());
  else
    json.null();
  json.key("requires_grad");
  json.boolean(requires_grad);
}

bool TensorFacts::is_plain() const {
  return has_shape && has_strides && device && (device->is_cpu() || device->is_cuda()) &&
         !keys.has_any(c10::DispatchKeySet(
             {c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
              c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper}));
}

std::string dtype_name(c10::ScalarType type) {
  static const std::unordered_map<std::string, const char*> names{{"Byte", "uint8"},
                                                                  {"Char", "int8"},
                                                                  {"Short", "int16"},
                                                                  {"Int", "int32"},
                                                                  {"Long", "int64"},
                                                                  {"Half", "float16"},
                                                                  {"Float", "float32"},
                                                                  {"Double", "float64"},
                                                                  {"ComplexHalf", "complex32"},
                                                                  {"ComplexFloat", "complex64"},
                                                                  {"ComplexDouble", "complex128"}};
  std::string name = c10::toString(type);
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  for (char& letter : name)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return name;
}

const c10::TensorImpl* tensor_in(const c10::IValue& value) {
  const c10::TensorImpl* const tensor = value.unsafeToTensorImpl();
  return tensor == c10::UndefinedTensorImpl::singleton() ? nullptr : tensor;
}

const c10::StorageImpl* storage_of(const c10::TensorImpl& tensor) {
  return tensor.unsafe_storage() ? tensor.unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace optrace_ops
