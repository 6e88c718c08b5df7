// The emulated libcudnn: versions, errors, handles, and the descriptors of tensors and filters in
// the legacy API. The legacy API's operations are in cudnn_convolution.cpp,
// cudnn_normalization.cpp, cudnn_pooling.cpp and cudnn_rnn.cpp, the graph API is in
// cudnn_backend.cpp.

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/libraries/cudnn/cudnn_descriptors.h"

namespace optrace::emulated {
namespace {

/// Text returned by cudnnGetLastErrorString() on the thread of the error.
thread_local std::string last_error;

std::string status_name(cudnnStatus_t status) {
  // Statuses are in blocks of a thousand, of which only the first hundred values are used.
  constexpr std::size_t kBlock = 100;
  const int block = static_cast<int>(status) / 1000;
  std::string_view name;
  if (block == 0) name = enumerator_name<cudnnStatus_t, 0, kBlock>(status);
  if (block == 1) name = enumerator_name<cudnnStatus_t, 1000, kBlock>(status);
  if (block == 2) name = enumerator_name<cudnnStatus_t, 2000, kBlock>(status);
  if (block == 3) name = enumerator_name<cudnnStatus_t, 3000, kBlock>(status);
  if (block == 4) name = enumerator_name<cudnnStatus_t, 4000, kBlock>(status);
  if (block == 5) name = enumerator_name<cudnnStatus_t, 5000, kBlock>(status);
  return name.empty() ? "CUDNN_UNKNOWN_STATUS" : std::string(name);
}

std::string activation_name(cudnnActivationMode_t mode) {
  return short_name(enumerator_name<cudnnActivationMode_t, 0, 7>(mode), "CUDNN_ACTIVATION_", mode);
}

}  // namespace

std::size_t type_bytes(cudnnDataType_t type) {
  const std::string name = type_name(type);
  if (name == "double" || name == "int64" || name == "complex_fp32") return 8;
  if (name == "complex_fp64") return 16;
  if (name == "float" || name == "int32" || name == "uint32" || name == "fast_float_for_fp8")
    return 4;
  if (name == "half" || name == "bfloat16") return 2;
  if (name == "int8x4" || name == "uint8x4") return 4;
  if (name == "int8x32") return 32;
  if (name == "boolean" || name == "fp4_e2m1" || name == "int4" || name == "uint4") return 0;
  return 1;
}

std::string math_type_name(cudnnMathType_t type) {
  return short_name(enumerator_name<cudnnMathType_t, 0, 4>(type), "CUDNN_", type);
}

void put(JsonText& json, const char* key, cudnnTensorDescriptor_t tensor) {
  json.key(key);
  json.open('{');
  put(json, "dims", tensor->dims);
  put(json, "strides", tensor->strides);
  put(json, "type", type_name(tensor->type));
  json.close('}');
}

void put(JsonText& json, const char* key, cudnnFilterDescriptor_t filter) {
  json.key(key);
  json.open('{');
  put(json, "dims", filter->dims);
  put(json, "format",
      short_name(enumerator_name<cudnnTensorFormat_t, 0, 3>(filter->format), "CUDNN_TENSOR_",
                 filter->format));
  put(json, "type", type_name(filter->type));
  json.close('}');
}

void put(JsonText& json, const char* key, cudnnConvolutionDescriptor_t convolution) {
  json.key(key);
  json.open('{');
  put(json, "padding", convolution->padding);
  put(json, "strides", convolution->strides);
  put(json, "dilations", convolution->dilations);
  put(json, "groups", convolution->groups);
  put(json, "mode",
      short_name(enumerator_name<cudnnConvolutionMode_t, 0, 2>(convolution->mode), "CUDNN_",
                 convolution->mode));
  put(json, "compute_type", type_name(convolution->compute_type));
  put(json, "math_type", math_type_name(convolution->math_type));
  json.close('}');
}

void put(JsonText& json, const char* key, cudnnActivationDescriptor_t activation) {
  json.key(key);
  json.open('{');
  put(json, "mode", activation_name(activation->mode));
  put(json, "coefficient", activation->coefficient);
  json.close('}');
}

cudnnStatus_t refuse(const char* function, cudnnStatus_t status, const std::string& why) {
  record_refusal(function, why, status, status_name(status));
  return wrong(status, std::string(function) + ": " + why);
}

cudnnStatus_t wrong(cudnnStatus_t status, const std::string& why) {
  last_error = why;
  return status;
}

cudnnStatus_t reject_null() {
  return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor or an output is null");
}

cudnnStatus_t no_workspace(std::size_t* bytes) {
  if (bytes == nullptr) return reject_null();
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

// Versions, errors, handles.

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr) return reject_null();
  if (!reported_property("cudnn", CUDNN_VERSION, type, *value))
    return wrong(CUDNN_STATUS_BAD_PARAM, "no such property");
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  // The text must outlive the call.
  thread_local std::string text;
  text = status_name(status);
  return text.c_str();
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (message != nullptr && max_size > 0)
    std::snprintf(message, max_size, "%s", last_error.c_str());
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return reject_null();
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (any_null(handle, stream)) return reject_null();
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// Tensors and filters.

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int count, const int* dims, const int* strides) {
  if (any_null(tensor, dims, strides)) return reject_null();
  if (count < 1 || count > CUDNN_DIM_MAX)
    return refuse("cudnnSetTensorNdDescriptor", CUDNN_STATUS_NOT_SUPPORTED,
                  "a tensor has at most 8 dimensions");
  for (int i = 0; i < count; ++i)
    if (dims[i] <= 0)
      return refuse("cudnnSetTensorNdDescriptor", CUDNN_STATUS_BAD_PARAM,
                    "a dimension is not positive");
  tensor->type = type;
  tensor->dims.assign(dims, dims + count);
  tensor->strides.assign(strides, strides + count);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int requested,
                                         cudnnDataType_t* type, int* count, int* dims,
                                         int* strides) {
  if (any_null(tensor, type, count)) return reject_null();
  *type = tensor->type;
  *count = static_cast<int>(tensor->dims.size());
  for (int i = 0; i < std::min(requested, *count); ++i) {
    if (dims != nullptr) dims[i] = tensor->dims[static_cast<std::size_t>(i)];
    if (strides != nullptr) strides[i] = tensor->strides[static_cast<std::size_t>(i)];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int count, const int* dims) {
  if (any_null(filter, dims)) return reject_null();
  if (count < 1 || count > CUDNN_DIM_MAX)
    return refuse("cudnnSetFilterNdDescriptor", CUDNN_STATUS_NOT_SUPPORTED,
                  "a filter has at most 8 dimensions");
  filter->type = type;
  filter->format = format;
  filter->dims.assign(dims, dims + count);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterNdDescriptor(cudnnFilterDescriptor_t filter, int requested,
                                         cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                         int* count, int* dims) {
  if (any_null(filter, type, format, count)) return reject_null();
  *type = filter->type;
  *format = filter->format;
  *count = static_cast<int>(filter->dims.size());
  for (int i = 0; dims != nullptr && i < std::min(requested, *count); ++i)
    dims[i] = filter->dims[static_cast<std::size_t>(i)];
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
