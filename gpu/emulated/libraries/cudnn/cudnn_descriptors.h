#pragma once

// Contents of the emulated cuDNN's descriptors, and their form in call records.

#include <new>
#include <string>
#include <vector>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/cudnn_graph.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> dims;
  std::vector<int> strides;
};

struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  std::vector<int> dims;
};

struct cudnnConvolutionStruct {
  std::vector<int> padding;
  std::vector<int> strides;
  std::vector<int> dilations;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
  int groups = 1;
};

struct cudnnActivationStruct {
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
};

struct cudnnPoolingStruct {
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  std::vector<int> window;
  std::vector<int> padding;
  std::vector<int> strides;
};

struct cudnnDropoutStruct {
  float probability = 0;
  void* states = nullptr;
  std::size_t state_bytes = 0;
  unsigned long long seed = 0;
};

struct cudnnSpatialTransformerStruct {
  cudnnSamplerType_t sampler = CUDNN_SAMPLER_BILINEAR;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> dims;
};

struct cudnnRNNStruct {
  cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
  cudnnRNNMode_t mode = CUDNN_LSTM;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  cudnnDirectionMode_t direction = CUDNN_UNIDIRECTIONAL;
  cudnnRNNInputMode_t input = CUDNN_LINEAR_INPUT;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnDataType_t precision = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
  int input_size = 0;
  int hidden_size = 0;
  int projection_size = 0;
  int layers = 0;
  double dropout = 0;
  bool padded = false;
};

struct cudnnRNNDataStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
  int max_length = 0;
  int batch = 0;
  int vector = 0;
  std::vector<int> lengths;
};

struct cudnnCTCLossStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnLossNormalizationMode_t normalization = CUDNN_LOSS_NORMALIZATION_NONE;
  int max_label_length = 0;
};

namespace optrace::emulated {

/// Size of an element in bytes; 0 if that is not an integer.
std::size_t type_bytes(cudnnDataType_t type);

std::string math_type_name(cudnnMathType_t type);

void put(JsonText& json, const char* key, cudnnTensorDescriptor_t tensor);
void put(JsonText& json, const char* key, cudnnFilterDescriptor_t filter);
void put(JsonText& json, const char* key, cudnnConvolutionDescriptor_t convolution);
void put(JsonText& json, const char* key, cudnnActivationDescriptor_t activation);

/// Refuses a call as the real cuDNN does: records `why` and stores it for
/// cudnnGetLastErrorString().
cudnnStatus_t refuse(const char* function, cudnnStatus_t status, const std::string& why);

/// Rejects an incorrect call. It is not recorded as a refusal; `why` is only stored for
/// cudnnGetLastErrorString().
cudnnStatus_t wrong(cudnnStatus_t status, const std::string& why);

/// Rejects a call because of a null pointer.
cudnnStatus_t reject_null();

template <typename... Values>
bool any_null(const Values*... pointers) {
  return ((pointers == nullptr) || ...);
}

/// Sets the size of a workspace. The emulated algorithms need none.
cudnnStatus_t no_workspace(std::size_t* bytes);

// Called by generated functions (gpu/generator/call_rules.cpp).

template <typename Struct>
cudnnStatus_t create(Struct** descriptor) {
  if (descriptor == nullptr) return reject_null();
  *descriptor = new (std::nothrow) Struct;
  return *descriptor == nullptr ? CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                                : CUDNN_STATUS_SUCCESS;
}

template <typename Struct>
cudnnStatus_t destroy(Struct* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace optrace::emulated
