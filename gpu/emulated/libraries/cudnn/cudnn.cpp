// The emulated libcudnn: handles, errors, and the legacy API's descriptors and operations
// (convolution, batch normalization, pooling, softmax, activation, spatial transformer). The graph
// API is in cudnn_backend.cpp, RNN and CTC in cudnn_rnn.cpp.

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

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

template <typename Struct>
cudnnStatus_t create(Struct** descriptor) {
  if (descriptor == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null descriptor");
  *descriptor = new (std::nothrow) Struct;
  return *descriptor == nullptr ? CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                                : CUDNN_STATUS_SUCCESS;
}

template <typename Struct>
cudnnStatus_t destroy(Struct* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

template <typename... Values>
bool any_null(const Values*... pointers) {
  return ((pointers == nullptr) || ...);
}

constexpr const char* kNull = "a descriptor or an output is null";

std::string activation_name(cudnnActivationMode_t mode) {
  return short_name(enumerator_name<cudnnActivationMode_t, 0, 7>(mode), "CUDNN_ACTIVATION_", mode);
}

std::string batch_norm_mode_name(cudnnBatchNormMode_t mode) {
  return short_name(enumerator_name<cudnnBatchNormMode_t, 0, 3>(mode), "CUDNN_BATCHNORM_", mode);
}

std::string batch_norm_ops_name(cudnnBatchNormOps_t ops) {
  return short_name(enumerator_name<cudnnBatchNormOps_t, 0, 3>(ops), "CUDNN_BATCHNORM_OPS_", ops);
}

// Convolution in the legacy API.

/// Returns the reason why the shapes don't match, or an empty text.
std::string mismatch(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                     cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y) {
  const std::size_t spatial = convolution->padding.size();
  if (x->dims.size() != spatial + 2 || w->dims.size() != spatial + 2 ||
      y->dims.size() != spatial + 2)
    return "the tensors' dimensions do not fit the convolution's";
  if (x->dims[1] != w->dims[1] * convolution->groups)
    return "the input's channels are not the filter's times the groups";
  if (y->dims[0] != x->dims[0] || y->dims[1] != w->dims[0])
    return "the output's batch or channels do not fit";
  for (std::size_t i = 0; i < spatial; ++i) {
    const int extent = convolution->dilations[i] * (w->dims[i + 2] - 1) + 1;
    const int size = x->dims[i + 2] + 2 * convolution->padding[i] - extent;
    if (size < 0 || size / convolution->strides[i] + 1 != y->dims[i + 2])
      return "the output's spatial dimension " + std::to_string(i) + " does not fit";
  }
  return {};
}

/// Returns the reason why the legacy convolutions don't support these types on this GPU model
/// ("Supported configurations" of cudnnConvolutionForward in the API reference), or an empty text.
std::string unsupported(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w) {
  constexpr int kAmpere = 80;
  if ((x->type == CUDNN_DATA_BFLOAT16 || w->type == CUDNN_DATA_BFLOAT16) && arch() < kAmpere)
    return "bfloat16 convolution needs compute capability 8.0";
  if (x->type != w->type) return "the input's type is not the filter's";
  return {};
}

template <typename Algorithm>
std::string algorithm_name(Algorithm algorithm) {
  return short_name(enumerator_name<Algorithm, 0, 6>(algorithm), "CUDNN_CONVOLUTION_", algorithm);
}

/// Checks a legacy convolution and records it if `recorded` is true.
template <typename Algorithm>
cudnnStatus_t convolve(const char* function, bool recorded, cudnnTensorDescriptor_t x,
                       cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t convolution,
                       cudnnTensorDescriptor_t y, Algorithm algorithm, std::size_t workspace,
                       cudnnActivationDescriptor_t activation = nullptr) {
  if (any_null(x, w, convolution, y)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (const std::string why = mismatch(x, w, convolution, y); !why.empty())
    return refuse(function, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, why);
  if (const std::string why = unsupported(x, w); !why.empty())
    return refuse(function, CUDNN_STATUS_NOT_SUPPORTED, why);
  if (!recorded) return CUDNN_STATUS_SUCCESS;
  Call call(function, "library");
  put(call.json(), "x", x);
  put(call.json(), "w", w);
  put(call.json(), "y", y);
  put(call.json(), "convolution", convolution);
  if (activation != nullptr) put(call.json(), "activation", activation);
  put(call.json(), "algorithm", algorithm_name(algorithm));
  put(call.json(), "workspace", workspace);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

/// Fills the results of the Get...Algorithm_v7 and Find...AlgorithmEx functions. The order is
/// specific to the emulation; the determinism is documented.
template <typename Perf>
cudnnStatus_t answer(const Perf* algorithms, int known, int requested, int* returned, Perf* results,
                     cudnnConvolutionDescriptor_t convolution) {
  if (returned == nullptr || results == nullptr || requested < 1)
    return wrong(CUDNN_STATUS_BAD_PARAM, "no room for an algorithm");
  *returned = std::min(requested, known);
  for (int i = 0; i < *returned; ++i) {
    results[i] = algorithms[i];
    results[i].status = CUDNN_STATUS_SUCCESS;
    results[i].mathType = convolution->math_type;
  }
  return CUDNN_STATUS_SUCCESS;
}

template <typename Perf, typename Algorithm>
Perf performance(Algorithm algorithm, cudnnDeterminism_t determinism) {
  Perf perf = {};
  perf.algo = algorithm;
  perf.time = 0;
  perf.memory = 0;
  perf.determinism = determinism;
  return perf;
}

cudnnStatus_t forward_algorithms(int requested, int* returned,
                                 cudnnConvolutionFwdAlgoPerf_t* results,
                                 cudnnConvolutionDescriptor_t convolution) {
  using Perf = cudnnConvolutionFwdAlgoPerf_t;
  const Perf known[] = {
      performance<Perf>(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_DETERMINISTIC),
      performance<Perf>(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_DETERMINISTIC)};
  return answer(known, 2, requested, returned, results, convolution);
}

cudnnStatus_t backward_data_algorithms(int requested, int* returned,
                                       cudnnConvolutionBwdDataAlgoPerf_t* results,
                                       cudnnConvolutionDescriptor_t convolution) {
  using Perf = cudnnConvolutionBwdDataAlgoPerf_t;
  const Perf known[] = {
      performance<Perf>(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_DETERMINISTIC),
      performance<Perf>(CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_NON_DETERMINISTIC)};
  return answer(known, 2, requested, returned, results, convolution);
}

cudnnStatus_t backward_filter_algorithms(int requested, int* returned,
                                         cudnnConvolutionBwdFilterAlgoPerf_t* results,
                                         cudnnConvolutionDescriptor_t convolution) {
  using Perf = cudnnConvolutionBwdFilterAlgoPerf_t;
  const Perf known[] = {
      performance<Perf>(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_DETERMINISTIC),
      performance<Perf>(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_NON_DETERMINISTIC)};
  return answer(known, 2, requested, returned, results, convolution);
}

/// The emulated algorithms need no workspace.
cudnnStatus_t no_workspace(std::size_t* bytes) {
  if (bytes == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  *bytes = 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_dropout(cudnnDropoutDescriptor_t dropout, float probability, void* states,
                          std::size_t bytes, unsigned long long seed) {
  if (dropout == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (probability < 0 || probability > 1)
    return wrong(CUDNN_STATUS_BAD_PARAM, "a probability outside 0 to 1");
  dropout->probability = probability;
  dropout->states = states;
  dropout->state_bytes = bytes;
  dropout->seed = seed;
  return CUDNN_STATUS_SUCCESS;
}

/// Size of the generators' states: 16 bytes for each resident thread of the GPU model. The real
/// size is not documented; nothing reads the states.
std::size_t dropout_state_bytes() {
  constexpr std::size_t kState = 16;
  return kState * static_cast<std::size_t>(gpu_model().threads) *
         static_cast<std::size_t>(gpu_model().multiprocessors);
}

/// Checks that there is one scale, bias, mean or variance for each channel or, in per-activation
/// mode, for each element of a sample.
std::string batch_norm_mismatch(cudnnBatchNormMode_t mode, cudnnTensorDescriptor_t x,
                                cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t parameters) {
  if (x->dims.size() < 4 || x->dims.size() > 5) return "the input has neither 4 nor 5 dimensions";
  if (x->dims != y->dims) return "the output's dimensions are not the input's";
  if (parameters->dims.size() != x->dims.size() || parameters->dims[0] != 1 ||
      parameters->dims[1] != x->dims[1])
    return "the parameters' dimensions do not fit the input's";
  for (std::size_t i = 2; i < x->dims.size(); ++i) {
    const int wanted = mode == CUDNN_BATCHNORM_PER_ACTIVATION ? x->dims[i] : 1;
    if (parameters->dims[i] != wanted) return "the parameters' dimensions do not fit the mode";
  }
  return {};
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

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

// Versions, errors, handles.

OPTRACE_DEVICE_EXPORT size_t cudnnGetVersion() {
  return static_cast<size_t>(reported_version("cudnn", CUDNN_VERSION));
}
OPTRACE_DEVICE_EXPORT size_t cudnnGetMaxDeviceVersion() {
  return CUDNN_MAX_DEVICE_VERSION;
}
OPTRACE_DEVICE_EXPORT size_t cudnnGetCudartVersion() {
  return static_cast<size_t>(reported_version("cuda", CUDART_VERSION));
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (!reported_property("cudnn", CUDNN_VERSION, type, *value))
    return wrong(CUDNN_STATUS_BAD_PARAM, "no such property");
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT const char* cudnnGetErrorString(cudnnStatus_t status) {
  // The text must outlive the call.
  thread_local std::string text;
  text = status_name(status);
  return text.c_str();
}

OPTRACE_DEVICE_EXPORT void cudnnGetLastErrorString(char* message, size_t max_size) {
  if (message != nullptr && max_size > 0)
    std::snprintf(message, max_size, "%s", last_error.c_str());
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return create(handle);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return destroy(handle);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (any_null(handle, stream)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// Tensors and filters.

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create(tensor);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy(tensor);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor,
                                                               cudnnDataType_t type, int count,
                                                               const int* dims,
                                                               const int* strides) {
  if (any_null(tensor, dims, strides)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
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

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t tensor,
                                                               int requested, cudnnDataType_t* type,
                                                               int* count, int* dims,
                                                               int* strides) {
  if (any_null(tensor, type, count)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  *type = tensor->type;
  *count = static_cast<int>(tensor->dims.size());
  for (int i = 0; i < std::min(requested, *count); ++i) {
    if (dims != nullptr) dims[i] = tensor->dims[static_cast<std::size_t>(i)];
    if (strides != nullptr) strides[i] = tensor->strides[static_cast<std::size_t>(i)];
  }
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create(filter);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy(filter);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter,
                                                               cudnnDataType_t type,
                                                               cudnnTensorFormat_t format,
                                                               int count, const int* dims) {
  if (any_null(filter, dims)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (count < 1 || count > CUDNN_DIM_MAX)
    return refuse("cudnnSetFilterNdDescriptor", CUDNN_STATUS_NOT_SUPPORTED,
                  "a filter has at most 8 dimensions");
  filter->type = type;
  filter->format = format;
  filter->dims.assign(dims, dims + count);
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetFilterNdDescriptor(cudnnFilterDescriptor_t filter,
                                                               int requested, cudnnDataType_t* type,
                                                               cudnnTensorFormat_t* format,
                                                               int* count, int* dims) {
  if (any_null(filter, type, format, count))
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  *type = filter->type;
  *format = filter->format;
  *count = static_cast<int>(filter->dims.size());
  for (int i = 0; dims != nullptr && i < std::min(requested, *count); ++i)
    dims[i] = filter->dims[static_cast<std::size_t>(i)];
  return CUDNN_STATUS_SUCCESS;
}

// Convolution.

OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return create(convolution);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return destroy(convolution);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSetConvolutionNdDescriptor(
    cudnnConvolutionDescriptor_t convolution, int count, const int* padding, const int* strides,
    const int* dilations, cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  if (any_null(convolution, padding, strides, dilations))
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (count < 1 || count > CUDNN_DIM_MAX - 2)
    return refuse("cudnnSetConvolutionNdDescriptor", CUDNN_STATUS_NOT_SUPPORTED,
                  "too many spatial dimensions");
  for (int i = 0; i < count; ++i)
    if (padding[i] < 0 || strides[i] < 1 || dilations[i] < 1)
      return refuse("cudnnSetConvolutionNdDescriptor", CUDNN_STATUS_BAD_PARAM,
                    "a negative padding, or a stride or dilation that is not positive");
  convolution->padding.assign(padding, padding + count);
  convolution->strides.assign(strides, strides + count);
  convolution->dilations.assign(dilations, dilations + count);
  convolution->mode = mode;
  convolution->compute_type = compute_type;
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  if (convolution == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (groups < 1) return wrong(CUDNN_STATUS_BAD_PARAM, "fewer than one group");
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t type) {
  if (convolution == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  convolution->math_type = type;
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t, const void*, const cudnnTensorDescriptor_t x, const void*,
    const cudnnFilterDescriptor_t w, const void*, const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void*, size_t workspace, const void*,
    const cudnnTensorDescriptor_t y, void*) {
  return convolve("cudnnConvolutionForward", true, x, w, convolution, y, algorithm, workspace);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t, const void*, const cudnnTensorDescriptor_t x, const void*,
    const cudnnFilterDescriptor_t w, const void*, const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void*, size_t workspace, const void*,
    const cudnnTensorDescriptor_t z, const void*, const cudnnTensorDescriptor_t bias, const void*,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y, void*) {
  if (any_null(z, bias, activation)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  return convolve("cudnnConvolutionBiasActivationForward", true, x, w, convolution, y, algorithm,
                  workspace, activation);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t, const void*, const cudnnFilterDescriptor_t w, const void*,
    const cudnnTensorDescriptor_t dy, const void*, const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdDataAlgo_t algorithm, void*, size_t workspace, const void*,
    const cudnnTensorDescriptor_t dx, void*) {
  return convolve("cudnnConvolutionBackwardData", true, dx, w, convolution, dy, algorithm,
                  workspace);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t, const void*, const cudnnTensorDescriptor_t x, const void*,
    const cudnnTensorDescriptor_t dy, const void*, const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void*, size_t workspace, const void*,
    const cudnnFilterDescriptor_t dw, void*) {
  return convolve("cudnnConvolutionBackwardFilter", true, x, dw, convolution, dy, algorithm,
                  workspace);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  const cudnnStatus_t status = convolve("cudnnGetConvolutionForwardAlgorithm_v7", false, x, w,
                                        convolution, y, CUDNN_CONVOLUTION_FWD_ALGO_COUNT, 0);
  return status != CUDNN_STATUS_SUCCESS
             ? status
             : forward_algorithms(requested, returned, results, convolution);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const void*, const cudnnFilterDescriptor_t w,
    const void*, const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    void*, const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results, void*,
    size_t workspace) {
  const cudnnStatus_t status =
      convolve("cudnnFindConvolutionForwardAlgorithmEx", true, x, w, convolution, y,
               CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace);
  return status != CUDNN_STATUS_SUCCESS
             ? status
             : forward_algorithms(requested, returned, results, convolution);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  const cudnnStatus_t status = convolve("cudnnGetConvolutionForwardWorkspaceSize", false, x, w,
                                        convolution, y, algorithm, 0);
  return status != CUDNN_STATUS_SUCCESS ? status : no_workspace(bytes);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  const cudnnStatus_t status = convolve("cudnnGetConvolutionBackwardDataAlgorithm_v7", false, dx, w,
                                        convolution, dy, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, 0);
  return status != CUDNN_STATUS_SUCCESS
             ? status
             : backward_data_algorithms(requested, returned, results, convolution);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const void*, const cudnnTensorDescriptor_t dy,
    const void*, const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    void*, const int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results, void*,
    size_t workspace) {
  const cudnnStatus_t status =
      convolve("cudnnFindConvolutionBackwardDataAlgorithmEx", true, dx, w, convolution, dy,
               CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace);
  return status != CUDNN_STATUS_SUCCESS
             ? status
             : backward_data_algorithms(requested, returned, results, convolution);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  const cudnnStatus_t status = convolve("cudnnGetConvolutionBackwardDataWorkspaceSize", false, dx,
                                        w, convolution, dy, algorithm, 0);
  return status != CUDNN_STATUS_SUCCESS ? status : no_workspace(bytes);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  const cudnnStatus_t status =
      convolve("cudnnGetConvolutionBackwardFilterAlgorithm_v7", false, x, dw, convolution, dy,
               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, 0);
  return status != CUDNN_STATUS_SUCCESS
             ? status
             : backward_filter_algorithms(requested, returned, results, convolution);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t dy,
    const void*, const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    void*, const int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results, void*,
    size_t workspace) {
  const cudnnStatus_t status =
      convolve("cudnnFindConvolutionBackwardFilterAlgorithmEx", true, x, dw, convolution, dy,
               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace);
  return status != CUDNN_STATUS_SUCCESS
             ? status
             : backward_filter_algorithms(requested, returned, results, convolution);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t convolution, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  const cudnnStatus_t status = convolve("cudnnGetConvolutionBackwardFilterWorkspaceSize", false, x,
                                        dw, convolution, dy, algorithm, 0);
  return status != CUDNN_STATUS_SUCCESS ? status : no_workspace(bytes);
}

// Activation, pooling, dropout.

OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation) {
  return create(activation);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
  return destroy(activation);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation, cudnnActivationMode_t mode,
                             cudnnNanPropagation_t nan, double coefficient) {
  if (activation == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  activation->mode = mode;
  activation->nan = nan;
  activation->coefficient = coefficient;
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnActivationForward(cudnnHandle_t,
                                                           cudnnActivationDescriptor_t activation,
                                                           const void*,
                                                           const cudnnTensorDescriptor_t x,
                                                           const void*, const void*,
                                                           const cudnnTensorDescriptor_t y, void*) {
  if (any_null(activation, x, y)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  Call call("cudnnActivationForward", "library");
  put(call.json(), "activation", activation);
  put(call.json(), "x", x);
  put(call.json(), "y", y);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling) {
  return create(pooling);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) {
  return destroy(pooling);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSetPooling2dDescriptor(
    cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode, cudnnNanPropagation_t,
    int window_height, int window_width, int vertical_padding, int horizontal_padding,
    int vertical_stride, int horizontal_stride) {
  if (pooling == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  pooling->mode = mode;
  pooling->window = {window_height, window_width};
  pooling->padding = {vertical_padding, horizontal_padding};
  pooling->strides = {vertical_stride, horizontal_stride};
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnPoolingForward(cudnnHandle_t,
                                                        const cudnnPoolingDescriptor_t pooling,
                                                        const void*,
                                                        const cudnnTensorDescriptor_t x,
                                                        const void*, const void*,
                                                        const cudnnTensorDescriptor_t y, void*) {
  if (any_null(pooling, x, y)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (x->dims.size() != y->dims.size() || x->dims[0] != y->dims[0] || x->dims[1] != y->dims[1])
    return refuse("cudnnPoolingForward", CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  "the input's batch or channels are not the output's");
  Call call("cudnnPoolingForward", "library");
  put(call.json(), "mode",
      short_name(enumerator_name<cudnnPoolingMode_t, 0, 4>(pooling->mode), "CUDNN_POOLING_",
                 pooling->mode));
  put(call.json(), "window", pooling->window);
  put(call.json(), "padding", pooling->padding);
  put(call.json(), "strides", pooling->strides);
  put(call.json(), "x", x);
  put(call.json(), "y", y);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t,
                                                        cudnnSoftmaxAlgorithm_t algorithm,
                                                        cudnnSoftmaxMode_t mode, const void*,
                                                        const cudnnTensorDescriptor_t x,
                                                        const void*, const void*,
                                                        const cudnnTensorDescriptor_t y, void*) {
  if (any_null(x, y)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (x->dims != y->dims)
    return refuse("cudnnSoftmaxForward", CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                  "the output's dimensions are not the input's");
  Call call("cudnnSoftmaxForward", "library");
  put(call.json(), "algorithm",
      short_name(enumerator_name<cudnnSoftmaxAlgorithm_t, 0, 3>(algorithm), "CUDNN_SOFTMAX_",
                 algorithm));
  put(call.json(), "mode",
      short_name(enumerator_name<cudnnSoftmaxMode_t, 0, 2>(mode), "CUDNN_SOFTMAX_MODE_", mode));
  put(call.json(), "x", x);
  put(call.json(), "y", y);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* dropout) {
  return create(dropout);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout) {
  return destroy(dropout);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, size_t* bytes) {
  if (bytes == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  *bytes = dropout_state_bytes();
  return CUDNN_STATUS_SUCCESS;
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout,
                                                              cudnnHandle_t, float probability,
                                                              void* states, size_t bytes,
                                                              unsigned long long seed) {
  // Without states, the descriptor means no dropout.
  if (states != nullptr && bytes < dropout_state_bytes())
    return wrong(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the states have too little room");
  const cudnnStatus_t status = set_dropout(dropout, probability, states, bytes, seed);
  if (status == CUDNN_STATUS_SUCCESS && states != nullptr) {
    Call call("cudnnSetDropoutDescriptor", "library");
    put(call.json(), "dropout", static_cast<double>(probability));
    put(call.json(), "state_bytes", bytes);
    call.record();
  }
  return status;
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t dropout,
                                                                  cudnnHandle_t, float probability,
                                                                  void* states, size_t bytes,
                                                                  unsigned long long seed) {
  return set_dropout(dropout, probability, states, bytes, seed);
}

// Batch normalization.

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t parameters, const cudnnActivationDescriptor_t, size_t* bytes) {
  if (any_null(x, parameters)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  return no_workspace(bytes);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t parameters,
    const cudnnActivationDescriptor_t, size_t* bytes) {
  if (any_null(x, parameters)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  return no_workspace(bytes);
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t ops, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t x, size_t* bytes) {
  if (any_null(x, bytes)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  // With an activation, the reserve space has one bit per element for elements that were clipped.
  constexpr std::size_t kBits = 8;
  std::size_t elements = 1;
  for (const int dim : x->dims) elements *= static_cast<std::size_t>(dim);
  *bytes = ops == CUDNN_BATCHNORM_OPS_BN ? 0 : (elements + kBits - 1) / kBits;
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t, cudnnBatchNormMode_t mode, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t y, void*,
    const cudnnTensorDescriptor_t parameters, const void*, const void*, const void*, const void*,
    double epsilon) {
  constexpr const char* kFunction = "cudnnBatchNormalizationForwardInference";
  if (any_null(x, y, parameters)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (const std::string why = batch_norm_mismatch(mode, x, y, parameters); !why.empty())
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, why);
  Call call(kFunction, "library");
  put(call.json(), "mode", batch_norm_mode_name(mode));
  put(call.json(), "x", x);
  put(call.json(), "y", y);
  put(call.json(), "scale_bias_mean_var", parameters);
  put(call.json(), "epsilon", epsilon);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t z, const void*,
    const cudnnTensorDescriptor_t y, void*, const cudnnTensorDescriptor_t parameters, const void*,
    const void*, double average_factor, void* running_mean, void* running_variance, double epsilon,
    void*, void*, cudnnActivationDescriptor_t activation, void*, size_t workspace, void*,
    size_t reserve) {
  constexpr const char* kFunction = "cudnnBatchNormalizationForwardTrainingEx";
  if (any_null(x, y, parameters)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if ((running_mean == nullptr) != (running_variance == nullptr))
    return wrong(CUDNN_STATUS_BAD_PARAM, "one of the running mean and variance is null");
  if (const std::string why = batch_norm_mismatch(mode, x, y, parameters); !why.empty())
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, why);
  Call call(kFunction, "library");
  put(call.json(), "mode", batch_norm_mode_name(mode));
  put(call.json(), "ops", batch_norm_ops_name(ops));
  put(call.json(), "x", x);
  if (z != nullptr) put(call.json(), "z", z);
  put(call.json(), "y", y);
  put(call.json(), "scale_bias_mean_var", parameters);
  put(call.json(), "running_statistics", running_mean != nullptr);
  put(call.json(), "average_factor", average_factor);
  put(call.json(), "epsilon", epsilon);
  if (activation != nullptr) put(call.json(), "activation", activation);
  put(call.json(), "workspace", workspace);
  put(call.json(), "reserve_space", reserve);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void*, const void*,
    const void*, const void*, const cudnnTensorDescriptor_t x, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t dy, const void*,
    const cudnnTensorDescriptor_t dz, void*, const cudnnTensorDescriptor_t dx, void*,
    const cudnnTensorDescriptor_t parameters, const void*, const void*, void*, void*,
    double epsilon, const void*, const void*, cudnnActivationDescriptor_t activation, void*,
    size_t workspace, void*, size_t reserve) {
  constexpr const char* kFunction = "cudnnBatchNormalizationBackwardEx";
  if (any_null(x, dy, dx, parameters)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (const std::string why = batch_norm_mismatch(mode, x, dx, parameters); !why.empty())
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, why);
  Call call(kFunction, "library");
  put(call.json(), "mode", batch_norm_mode_name(mode));
  put(call.json(), "ops", batch_norm_ops_name(ops));
  put(call.json(), "x", x);
  put(call.json(), "dy", dy);
  if (dz != nullptr) put(call.json(), "dz", dz);
  put(call.json(), "dx", dx);
  put(call.json(), "dscale_dbias", parameters);
  put(call.json(), "epsilon", epsilon);
  if (activation != nullptr) put(call.json(), "activation", activation);
  put(call.json(), "workspace", workspace);
  put(call.json(), "reserve_space", reserve);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

// Spatial transformer.

OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnCreateSpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t* transformer) {
  return create(transformer);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnDestroySpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t transformer) {
  return destroy(transformer);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSetSpatialTransformerNdDescriptor(
    cudnnSpatialTransformerDescriptor_t transformer, cudnnSamplerType_t sampler,
    cudnnDataType_t type, const int count, const int* dims) {
  if (any_null(transformer, dims)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  if (count != 4)
    return refuse("cudnnSetSpatialTransformerNdDescriptor", CUDNN_STATUS_NOT_SUPPORTED,
                  "a spatial transformer takes 4 dimensions");
  transformer->sampler = sampler;
  transformer->type = type;
  transformer->dims.assign(dims, dims + count);
  return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t transform(const char* function,
                               cudnnSpatialTransformerDescriptor_t transformer,
                               cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y) {
  if (transformer == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  Call call(function, "library");
  put(call.json(), "sampler",
      transformer->sampler == CUDNN_SAMPLER_BILINEAR ? std::string("bilinear")
                                                     : std::to_string(transformer->sampler));
  put(call.json(), "dims", transformer->dims);
  put(call.json(), "type", type_name(transformer->type));
  if (x != nullptr) put(call.json(), "x", x);
  if (y != nullptr) put(call.json(), "y", y);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSpatialTfGridGeneratorForward(
    cudnnHandle_t, const cudnnSpatialTransformerDescriptor_t transformer, const void*, void*) {
  return transform("cudnnSpatialTfGridGeneratorForward", transformer, nullptr, nullptr);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSpatialTfGridGeneratorBackward(
    cudnnHandle_t, const cudnnSpatialTransformerDescriptor_t transformer, const void*, void*) {
  return transform("cudnnSpatialTfGridGeneratorBackward", transformer, nullptr, nullptr);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t
cudnnSpatialTfSamplerForward(cudnnHandle_t, cudnnSpatialTransformerDescriptor_t transformer,
                             const void*, const cudnnTensorDescriptor_t x, const void*, const void*,
                             const void*, cudnnTensorDescriptor_t y, void*) {
  if (any_null(x, y)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  return transform("cudnnSpatialTfSamplerForward", transformer, x, y);
}
OPTRACE_DEVICE_EXPORT cudnnStatus_t cudnnSpatialTfSamplerBackward(
    cudnnHandle_t, cudnnSpatialTransformerDescriptor_t transformer, const void*,
    const cudnnTensorDescriptor_t x, const void*, const void*, const cudnnTensorDescriptor_t, void*,
    const void*, const cudnnTensorDescriptor_t dy, const void*, const void*, const void*, void*) {
  if (any_null(x, dy)) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, kNull);
  return transform("cudnnSpatialTfSamplerBackward", transformer, x, dy);
}

}  // extern "C"
