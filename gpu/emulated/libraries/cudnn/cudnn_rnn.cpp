// The emulated libcudnn: recurrent networks (the v8 API) and CTC loss.

#include <algorithm>
#include <cstdint>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/libraries/cudnn/cudnn_descriptors.h"

namespace optrace::emulated {
namespace {

int directions(const cudnnRNNStruct& rnn) {
  return rnn.direction == CUDNN_BIDIRECTIONAL ? 2 : 1;
}

/// Number of matrices applied to the input; the same number is applied to the hidden state.
int gates(const cudnnRNNStruct& rnn) {
  switch (rnn.mode) {
    case CUDNN_LSTM:
      return 4;
    case CUDNN_GRU:
      return 3;
    default:
      return 1;
  }
}

/// Size of the layer's output to the next time step.
int recurrent_size(const cudnnRNNStruct& rnn) {
  return rnn.projection_size == 0 || rnn.projection_size == rnn.hidden_size ? rnn.hidden_size
                                                                            : rnn.projection_size;
}

bool projects(const cudnnRNNStruct& rnn) {
  return recurrent_size(rnn) != rnn.hidden_size;
}

/// Number of pseudo layers; a pseudo layer is one direction of a layer.
int pseudo_layers(const cudnnRNNStruct& rnn) {
  return rnn.layers * directions(rnn);
}

int input_size(const cudnnRNNStruct& rnn, int pseudo_layer) {
  return pseudo_layer < directions(rnn) ? rnn.input_size : recurrent_size(rnn) * directions(rnn);
}

/// Number of matrices. The projection's matrix follows those of all gates.
int matrices(const cudnnRNNStruct& rnn) {
  return 2 * gates(rnn) + (projects(rnn) ? 1 : 0);
}

struct Size {
  std::size_t rows;
  std::size_t columns;
};

Size matrix_size(const cudnnRNNStruct& rnn, int pseudo_layer, int id) {
  const auto hidden = static_cast<std::size_t>(rnn.hidden_size);
  const auto recurrent = static_cast<std::size_t>(recurrent_size(rnn));
  if (id >= 2 * gates(rnn)) return {recurrent, hidden};
  if (id >= gates(rnn)) return {hidden, recurrent};
  const bool skipped = rnn.input == CUDNN_SKIP_INPUT && pseudo_layer < directions(rnn);
  return {hidden, skipped ? 0 : static_cast<std::size_t>(input_size(rnn, pseudo_layer))};
}

std::size_t bias_size(const cudnnRNNStruct& rnn, int id) {
  if (id >= 2 * gates(rnn) || rnn.bias == CUDNN_RNN_NO_BIAS) return 0;
  const bool of_input = id < gates(rnn);
  if (rnn.bias == CUDNN_RNN_SINGLE_INP_BIAS && !of_input) return 0;
  if (rnn.bias == CUDNN_RNN_SINGLE_REC_BIAS && of_input) return 0;
  return static_cast<std::size_t>(rnn.hidden_size);
}

/// Number of elements in the weight space before a pseudo layer's matrix or, with `biases`, its
/// bias: the matrices of all layers precede the biases of all.
std::size_t weights_before(const cudnnRNNStruct& rnn, int pseudo_layer, int id, bool biases) {
  std::size_t before = 0;
  for (int layer = 0; layer < pseudo_layers(rnn); ++layer)
    for (int matrix = 0; matrix < matrices(rnn); ++matrix) {
      if (!biases && layer == pseudo_layer && matrix == id) return before;
      const Size size = matrix_size(rnn, layer, matrix);
      before += size.rows * size.columns;
    }
  for (int layer = 0; layer < pseudo_layers(rnn); ++layer)
    for (int matrix = 0; matrix < matrices(rnn); ++matrix) {
      if (biases && layer == pseudo_layer && matrix == id) return before;
      before += bias_size(rnn, matrix);
    }
  return before;
}

std::size_t weights(const cudnnRNNStruct& rnn) {
  return weights_before(rnn, pseudo_layers(rnn), 0, true);
}

void fill(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, std::size_t rows,
          std::size_t columns) {
  tensor->type = type;
  tensor->dims = {1, static_cast<int>(rows), static_cast<int>(columns)};
  tensor->strides = {static_cast<int>(rows * columns), static_cast<int>(columns), 1};
}

/// Size of the gates' values for all steps and layers. The real library's size is not documented.
std::size_t activations_bytes(const cudnnRNNStruct& rnn, const cudnnRNNDataStruct& data) {
  return type_bytes(rnn.type) * static_cast<std::size_t>(gates(rnn)) *
         static_cast<std::size_t>(rnn.hidden_size) * static_cast<std::size_t>(pseudo_layers(rnn)) *
         static_cast<std::size_t>(data.batch) * static_cast<std::size_t>(data.max_length);
}

void put_rnn(JsonText& json, const cudnnRNNStruct& rnn) {
  put(json, "cell",
      short_name(enumerator_name<cudnnRNNMode_t, 0, 4>(rnn.mode), "CUDNN_", rnn.mode));
  put(json, "algorithm",
      short_name(enumerator_name<cudnnRNNAlgo_t, 0, 5>(rnn.algorithm), "CUDNN_RNN_ALGO_",
                 rnn.algorithm));
  put(json, "direction",
      short_name(enumerator_name<cudnnDirectionMode_t, 0, 2>(rnn.direction), "CUDNN_",
                 rnn.direction));
  put(json, "bias",
      short_name(enumerator_name<cudnnRNNBiasMode_t, 0, 4>(rnn.bias), "CUDNN_RNN_", rnn.bias));
  put(json, "input_mode",
      short_name(enumerator_name<cudnnRNNInputMode_t, 0, 2>(rnn.input), "CUDNN_", rnn.input));
  put(json, "input_size", rnn.input_size);
  put(json, "hidden_size", rnn.hidden_size);
  if (projects(rnn)) put(json, "projection_size", rnn.projection_size);
  put(json, "layers", rnn.layers);
  put(json, "type", type_name(rnn.type));
  put(json, "compute_type", type_name(rnn.precision));
  put(json, "math_type", math_type_name(rnn.math_type));
  put(json, "dropout", rnn.dropout);
}

void put_data(JsonText& json, const char* key, const cudnnRNNDataStruct& data) {
  json.key(key);
  json.open('{');
  put(json, "layout",
      short_name(enumerator_name<cudnnRNNDataLayout_t, 0, 3>(data.layout), "CUDNN_RNN_DATA_LAYOUT_",
                 data.layout));
  put(json, "max_sequence_length", data.max_length);
  put(json, "batch", data.batch);
  put(json, "vector_size", data.vector);
  put(json, "type", type_name(data.type));
  json.close('}');
}

/// Checks and records a pass. `state` is the hidden state's descriptor.
cudnnStatus_t run(const char* function, cudnnRNNDescriptor_t rnn, cudnnRNNDataDescriptor_t x,
                  cudnnRNNDataDescriptor_t y, cudnnTensorDescriptor_t state,
                  std::size_t weight_bytes, std::size_t workspace, std::size_t reserve,
                  const char* forward_mode) {
  if (rnn == nullptr || x == nullptr || y == nullptr) return reject_null();
  if (x->vector != rnn->input_size)
    return refuse(function, CUDNN_STATUS_BAD_PARAM, "the input's vectors are not the input size");
  if (y->vector != recurrent_size(*rnn) * directions(*rnn))
    return refuse(function, CUDNN_STATUS_BAD_PARAM, "the output's vectors are not the hidden size");
  if (x->batch != y->batch || x->max_length != y->max_length || x->layout != y->layout)
    return refuse(function, CUDNN_STATUS_BAD_PARAM,
                  "the output's batch or layout is not the input's");
  if (weight_bytes < weights(*rnn) * type_bytes(rnn->type))
    return refuse(function, CUDNN_STATUS_BAD_PARAM, "the weight space is too small");
  Call call(function, "library");
  put_rnn(call.json(), *rnn);
  if (forward_mode != nullptr) put(call.json(), "forward_mode", forward_mode);
  put_data(call.json(), "x", *x);
  put_data(call.json(), "y", *y);
  if (state != nullptr && !state->dims.empty()) put(call.json(), "h", state);
  put(call.json(), "weight_space", weight_bytes);
  put(call.json(), "workspace", workspace);
  put(call.json(), "reserve_space", reserve);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_ctc(cudnnCTCLossDescriptor_t loss, cudnnDataType_t type,
                      cudnnLossNormalizationMode_t normalization, int max_label_length) {
  if (loss == nullptr) return reject_null();
  if (type != CUDNN_DATA_FLOAT) return wrong(CUDNN_STATUS_BAD_PARAM, "CTC computes in float");
  loss->type = type;
  loss->normalization = normalization;
  loss->max_label_length = max_label_length;
  return CUDNN_STATUS_SUCCESS;
}

/// Size of the forward and backward variables for each step, sample and label, with blanks between
/// labels.
std::size_t ctc_bytes(const cudnnTensorStruct& probabilities, int max_label_length) {
  const std::vector<int>& dims = probabilities.dims;
  return 2 * sizeof(float) * static_cast<std::size_t>(dims[0]) * static_cast<std::size_t>(dims[1]) *
         static_cast<std::size_t>(2 * max_label_length + 1);
}

cudnnStatus_t ctc_workspace(cudnnCTCLossDescriptor_t loss, cudnnTensorDescriptor_t probabilities,
                            int max_label_length, std::size_t* bytes) {
  if (loss == nullptr || probabilities == nullptr || bytes == nullptr) return reject_null();
  if (probabilities->dims.size() != 3)
    return wrong(CUDNN_STATUS_BAD_PARAM, "CTC takes probabilities of 3 dimensions");
  *bytes = ctc_bytes(*probabilities, max_label_length);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t ctc(const char* function, cudnnCTCLossAlgo_t algorithm, cudnnCTCLossDescriptor_t loss,
                  cudnnTensorDescriptor_t probabilities, cudnnTensorDescriptor_t gradients,
                  int max_label_length, std::size_t workspace) {
  if (loss == nullptr || probabilities == nullptr) return reject_null();
  if (probabilities->type != CUDNN_DATA_FLOAT)
    return refuse(function, CUDNN_STATUS_NOT_SUPPORTED, "CTC takes float probabilities");
  Call call(function, "library");
  put(call.json(), "algorithm",
      short_name(enumerator_name<cudnnCTCLossAlgo_t, 0, 2>(algorithm), "CUDNN_CTC_LOSS_ALGO_",
                 algorithm));
  put(call.json(), "normalization",
      short_name(enumerator_name<cudnnLossNormalizationMode_t, 0, 2>(loss->normalization),
                 "CUDNN_LOSS_NORMALIZATION_", loss->normalization));
  put(call.json(), "probabilities", probabilities);
  if (gradients != nullptr && !gradients->dims.empty()) put(call.json(), "gradients", gradients);
  put(call.json(), "max_label_length", max_label_length);
  put(call.json(), "workspace", workspace);
  call.record();
  return CUDNN_STATUS_SUCCESS;
}

/// Returns the largest of the label lengths, one for each sample.
int longest(const int* lengths, cudnnTensorDescriptor_t probabilities) {
  if (lengths == nullptr || probabilities == nullptr || probabilities->dims.size() < 2) return 0;
  return *std::max_element(lengths, lengths + probabilities->dims[1]);
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t precision,
                                       cudnnMathType_t math_type, int32_t input_size,
                                       int32_t hidden_size, int32_t projection_size, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags) {
  constexpr const char* kFunction = "cudnnSetRNNDescriptor_v8";
  if (rnn == nullptr) return reject_null();
  if (input_size < 1 || hidden_size < 1 || layers < 1)
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, "a size that is not positive");
  if (projection_size > hidden_size)
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, "the projection is larger than the state");
  if (projection_size != 0 && projection_size != hidden_size &&
      (mode != CUDNN_LSTM || algorithm != CUDNN_RNN_ALGO_STANDARD))
    return refuse(kFunction, CUDNN_STATUS_NOT_SUPPORTED,
                  "only an LSTM of the standard algorithm projects");
  if (input == CUDNN_SKIP_INPUT && input_size != hidden_size)
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM,
                  "skipping the input needs an input of the hidden size");
  rnn->algorithm = algorithm;
  rnn->mode = mode;
  rnn->bias = bias;
  rnn->direction = direction;
  rnn->input = input;
  rnn->type = type;
  rnn->precision = precision;
  rnn->math_type = math_type;
  rnn->input_size = input_size;
  rnn->hidden_size = hidden_size;
  rnn->projection_size = projection_size;
  rnn->layers = layers;
  rnn->dropout = dropout == nullptr ? 0 : static_cast<double>(dropout->probability);
  rnn->padded = (flags & CUDNN_RNN_PADDED_IO_ENABLED) != 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int max_length, int batch,
                                        int vector, const int* lengths, void*) {
  constexpr const char* kFunction = "cudnnSetRNNDataDescriptor";
  if (data == nullptr || lengths == nullptr) return reject_null();
  if (max_length < 1 || batch < 1 || vector < 1)
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, "a size that is not positive");
  for (int i = 0; i < batch; ++i)
    if (lengths[i] < 0 || lengths[i] > max_length)
      return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, "a sequence longer than the longest");
  data->type = type;
  data->layout = layout;
  data->max_length = max_length;
  data->batch = batch;
  data->vector = vector;
  data->lengths.assign(lengths, lengths + batch);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t, cudnnRNNDescriptor_t rnn, size_t* bytes) {
  if (rnn == nullptr || bytes == nullptr) return reject_null();
  *bytes = weights(*rnn) * type_bytes(rnn->type);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t, cudnnRNNDescriptor_t rnn,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t* workspace, size_t* reserve) {
  if (rnn == nullptr || x == nullptr) return reject_null();
  if (workspace != nullptr) *workspace = activations_bytes(*rnn, *x);
  if (reserve != nullptr)
    *reserve = mode == CUDNN_FWD_MODE_TRAINING ? activations_bytes(*rnn, *x) : 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t, cudnnRNNDescriptor_t rnn, int32_t pseudo_layer,
                                      size_t bytes, const void* space, int32_t id,
                                      cudnnTensorDescriptor_t matrix, void** matrix_address,
                                      cudnnTensorDescriptor_t bias, void** bias_address) {
  constexpr const char* kFunction = "cudnnGetRNNWeightParams";
  if (rnn == nullptr) return reject_null();
  if (pseudo_layer < 0 || pseudo_layer >= pseudo_layers(*rnn) || id < 0)
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, "no such layer or matrix");
  const std::size_t element = type_bytes(rnn->type);
  if (bytes < weights(*rnn) * element)
    return refuse(kFunction, CUDNN_STATUS_BAD_PARAM, "the weight space is too small");
  char* const start = static_cast<char*>(const_cast<void*>(space));
  // A missing matrix or bias has no address and no dimensions.
  const Size size = id < matrices(*rnn) ? matrix_size(*rnn, pseudo_layer, id) : Size{0, 0};
  if (matrix_address != nullptr)
    *matrix_address = size.columns == 0
                          ? nullptr
                          : start + element * weights_before(*rnn, pseudo_layer, id, false);
  if (matrix != nullptr) {
    *matrix = cudnnTensorStruct{};
    if (size.columns != 0) fill(matrix, rnn->type, size.rows, size.columns);
  }
  const std::size_t rows = id < matrices(*rnn) ? bias_size(*rnn, id) : 0;
  if (bias_address != nullptr)
    *bias_address =
        rows == 0 ? nullptr : start + element * weights_before(*rnn, pseudo_layer, id, true);
  if (bias != nullptr) {
    *bias = cudnnTensorStruct{};
    if (rows != 0) fill(bias, rnn->type, rows, 1);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,
                              const int32_t*, cudnnRNNDataDescriptor_t x, const void*,
                              cudnnRNNDataDescriptor_t y, void*, cudnnTensorDescriptor_t h,
                              const void*, void*, cudnnTensorDescriptor_t, const void*, void*,
                              size_t weight_bytes, const void*, size_t workspace, void*,
                              size_t reserve, void*) {
  return run("cudnnRNNForward", rnn, x, y, h, weight_bytes, workspace, reserve,
             mode == CUDNN_FWD_MODE_TRAINING ? "training" : "inference");
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t, cudnnRNNDescriptor_t rnn, const int32_t*,
                                      cudnnRNNDataDescriptor_t y, const void*, const void*,
                                      cudnnRNNDataDescriptor_t x, void*, cudnnTensorDescriptor_t h,
                                      const void*, const void*, void*, cudnnTensorDescriptor_t,
                                      const void*, const void*, void*, size_t weight_bytes,
                                      const void*, size_t workspace, void*, size_t reserve, void*) {
  return run("cudnnRNNBackwardData_v8", rnn, x, y, h, weight_bytes, workspace, reserve, nullptr);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t, cudnnRNNDescriptor_t rnn, cudnnWgradMode_t,
                                         const int32_t*, cudnnRNNDataDescriptor_t x, const void*,
                                         cudnnTensorDescriptor_t h, const void*,
                                         cudnnRNNDataDescriptor_t y, const void*,
                                         size_t weight_bytes, void*, size_t workspace, void*,
                                         size_t reserve, void*) {
  return run("cudnnRNNBackwardWeights_v8", rnn, x, y, h, weight_bytes, workspace, reserve, nullptr);
}

// CTC.

cudnnStatus_t cudnnSetCTCLossDescriptorEx(cudnnCTCLossDescriptor_t loss, cudnnDataType_t type,
                                          cudnnLossNormalizationMode_t normalization,
                                          cudnnNanPropagation_t) {
  return set_ctc(loss, type, normalization, 0);
}
cudnnStatus_t cudnnSetCTCLossDescriptor_v9(cudnnCTCLossDescriptor_t loss, cudnnDataType_t type,
                                           cudnnLossNormalizationMode_t normalization,
                                           cudnnCTCGradMode_t, int max_label_length) {
  return set_ctc(loss, type, normalization, max_label_length);
}

cudnnStatus_t cudnnGetCTCLossWorkspaceSize(cudnnHandle_t,
                                           const cudnnTensorDescriptor_t probabilities,
                                           const cudnnTensorDescriptor_t, const int*,
                                           const int* label_lengths, const int*, cudnnCTCLossAlgo_t,
                                           cudnnCTCLossDescriptor_t loss, size_t* bytes) {
  return ctc_workspace(loss, probabilities, longest(label_lengths, probabilities), bytes);
}
cudnnStatus_t cudnnGetCTCLossWorkspaceSize_v8(cudnnHandle_t, cudnnCTCLossAlgo_t,
                                              cudnnCTCLossDescriptor_t loss,
                                              const cudnnTensorDescriptor_t probabilities,
                                              const cudnnTensorDescriptor_t, size_t* bytes) {
  return ctc_workspace(loss, probabilities, loss == nullptr ? 0 : loss->max_label_length, bytes);
}

cudnnStatus_t cudnnCTCLoss(cudnnHandle_t, const cudnnTensorDescriptor_t probabilities, const void*,
                           const int*, const int* label_lengths, const int*, void*,
                           const cudnnTensorDescriptor_t gradients, void*,
                           cudnnCTCLossAlgo_t algorithm, cudnnCTCLossDescriptor_t loss, void*,
                           size_t workspace) {
  return ctc("cudnnCTCLoss", algorithm, loss, probabilities, gradients,
             longest(label_lengths, probabilities), workspace);
}
cudnnStatus_t cudnnCTCLoss_v8(cudnnHandle_t, cudnnCTCLossAlgo_t algorithm,
                              cudnnCTCLossDescriptor_t loss,
                              const cudnnTensorDescriptor_t probabilities, const void*, const int*,
                              const int*, const int*, void*,
                              const cudnnTensorDescriptor_t gradients, void*, size_t workspace,
                              void*) {
  return ctc("cudnnCTCLoss_v8", algorithm, loss, probabilities, gradients,
             loss == nullptr ? 0 : loss->max_label_length, workspace);
}

}  // extern "C"
