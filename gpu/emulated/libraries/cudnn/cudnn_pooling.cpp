// The emulated libcudnn: activation, pooling, softmax, dropout and the spatial transformer in the
// legacy API.

#include <string>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/libraries/cudnn/cudnn_descriptors.h"

namespace optrace::emulated {
namespace {

cudnnStatus_t set_dropout(cudnnDropoutDescriptor_t dropout, float probability, void* states,
                          std::size_t bytes, unsigned long long seed) {
  if (dropout == nullptr) return reject_null();
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

cudnnStatus_t transform(const char* function, cudnnSpatialTransformerDescriptor_t transformer,
                        cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y) {
  if (transformer == nullptr) return reject_null();
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

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient) {
  if (activation == nullptr) return reject_null();
  activation->mode = mode;
  activation->nan = nan;
  activation->coefficient = coefficient;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnActivationForward(cudnnHandle_t, cudnnActivationDescriptor_t activation,
                                     const void*, const cudnnTensorDescriptor_t x, const void*,
                                     const void*, const cudnnTensorDescriptor_t y, void*) {
  if (any_null(activation, x, y)) return reject_null();
  Call call("cudnnActivationForward", "library");
  put(call.json(), "activation", activation);
  put(call.json(), "x", x);
  put(call.json(), "y", y);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t, int window_height,
                                          int window_width, int vertical_padding,
                                          int horizontal_padding, int vertical_stride,
                                          int horizontal_stride) {
  if (pooling == nullptr) return reject_null();
  pooling->mode = mode;
  pooling->window = {window_height, window_width};
  pooling->padding = {vertical_padding, horizontal_padding};
  pooling->strides = {vertical_stride, horizontal_stride};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t, const cudnnPoolingDescriptor_t pooling,
                                  const void*, const cudnnTensorDescriptor_t x, const void*,
                                  const void*, const cudnnTensorDescriptor_t y, void*) {
  if (any_null(pooling, x, y)) return reject_null();
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

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void*,
                                  const cudnnTensorDescriptor_t x, const void*, const void*,
                                  const cudnnTensorDescriptor_t y, void*) {
  if (any_null(x, y)) return reject_null();
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

cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t, size_t* bytes) {
  if (bytes == nullptr) return reject_null();
  *bytes = dropout_state_bytes();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t,
                                        float probability, void* states, size_t bytes,
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
cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t,
                                            float probability, void* states, size_t bytes,
                                            unsigned long long seed) {
  return set_dropout(dropout, probability, states, bytes, seed);
}

// Spatial transformer.

cudnnStatus_t cudnnSetSpatialTransformerNdDescriptor(
    cudnnSpatialTransformerDescriptor_t transformer, cudnnSamplerType_t sampler,
    cudnnDataType_t type, const int count, const int* dims) {
  if (any_null(transformer, dims)) return reject_null();
  if (count != 4)
    return refuse("cudnnSetSpatialTransformerNdDescriptor", CUDNN_STATUS_NOT_SUPPORTED,
                  "a spatial transformer takes 4 dimensions");
  transformer->sampler = sampler;
  transformer->type = type;
  transformer->dims.assign(dims, dims + count);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSpatialTfGridGeneratorForward(
    cudnnHandle_t, const cudnnSpatialTransformerDescriptor_t transformer, const void*, void*) {
  return transform("cudnnSpatialTfGridGeneratorForward", transformer, nullptr, nullptr);
}
cudnnStatus_t cudnnSpatialTfGridGeneratorBackward(
    cudnnHandle_t, const cudnnSpatialTransformerDescriptor_t transformer, const void*, void*) {
  return transform("cudnnSpatialTfGridGeneratorBackward", transformer, nullptr, nullptr);
}
cudnnStatus_t cudnnSpatialTfSamplerForward(cudnnHandle_t,
                                           cudnnSpatialTransformerDescriptor_t transformer,
                                           const void*, const cudnnTensorDescriptor_t x,
                                           const void*, const void*, const void*,
                                           cudnnTensorDescriptor_t y, void*) {
  if (any_null(x, y)) return reject_null();
  return transform("cudnnSpatialTfSamplerForward", transformer, x, y);
}
cudnnStatus_t cudnnSpatialTfSamplerBackward(cudnnHandle_t,
                                            cudnnSpatialTransformerDescriptor_t transformer,
                                            const void*, const cudnnTensorDescriptor_t x,
                                            const void*, const void*, const cudnnTensorDescriptor_t,
                                            void*, const void*, const cudnnTensorDescriptor_t dy,
                                            const void*, const void*, const void*, void*) {
  if (any_null(x, dy)) return reject_null();
  return transform("cudnnSpatialTfSamplerBackward", transformer, x, dy);
}

}  // extern "C"
