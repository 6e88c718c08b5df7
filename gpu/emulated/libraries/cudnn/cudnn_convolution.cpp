// The emulated libcudnn: convolution in the legacy API.

#include <algorithm>
#include <string>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/libraries/cudnn/cudnn_descriptors.h"

namespace optrace::emulated {
namespace {

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
  if (any_null(x, w, convolution, y)) return reject_null();
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

/// An algorithm that the emulation offers, in an order of its own; the determinism is documented.
template <typename Algorithm>
struct Offered {
  Algorithm algorithm;
  cudnnDeterminism_t determinism;
};

constexpr Offered<cudnnConvolutionFwdAlgo_t> kForward[] = {
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_DETERMINISTIC},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_DETERMINISTIC}};
constexpr Offered<cudnnConvolutionBwdDataAlgo_t> kBackwardData[] = {
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, CUDNN_DETERMINISTIC},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, CUDNN_NON_DETERMINISTIC}};
constexpr Offered<cudnnConvolutionBwdFilterAlgo_t> kBackwardFilter[] = {
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, CUDNN_DETERMINISTIC},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, CUDNN_NON_DETERMINISTIC}};

/// Fills the results of the Get...Algorithm_v7 and Find...AlgorithmEx functions.
template <typename Algorithm, typename Performance>
cudnnStatus_t offer(const Offered<Algorithm> (&offered)[2],
                    cudnnConvolutionDescriptor_t convolution, int requested, int* returned,
                    Performance* results) {
  if (returned == nullptr || results == nullptr || requested < 1)
    return wrong(CUDNN_STATUS_BAD_PARAM, "no room for an algorithm");
  *returned = std::min(requested, 2);
  for (int i = 0; i < *returned; ++i) {
    results[i] = {};
    results[i].algo = offered[i].algorithm;
    results[i].determinism = offered[i].determinism;
    results[i].status = CUDNN_STATUS_SUCCESS;
    results[i].mathType = convolution->math_type;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int count,
                                              const int* padding, const int* strides,
                                              const int* dilations, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute_type) {
  if (any_null(convolution, padding, strides, dilations)) return reject_null();
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

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  if (convolution == nullptr) return reject_null();
  if (groups < 1) return wrong(CUDNN_STATUS_BAD_PARAM, "fewer than one group");
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t type) {
  if (convolution == nullptr) return reject_null();
  convolution->math_type = type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void*, const cudnnTensorDescriptor_t x,
                                      const void*, const cudnnFilterDescriptor_t w, const void*,
                                      const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void*, size_t workspace,
                                      const void*, const cudnnTensorDescriptor_t y, void*) {
  return convolve("cudnnConvolutionForward", true, x, w, convolution, y, algorithm, workspace);
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t, const void*, const cudnnTensorDescriptor_t x, const void*,
    const cudnnFilterDescriptor_t w, const void*, const cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionFwdAlgo_t algorithm, void*, size_t workspace, const void*,
    const cudnnTensorDescriptor_t z, const void*, const cudnnTensorDescriptor_t bias, const void*,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y, void*) {
  if (any_null(z, bias, activation)) return reject_null();
  return convolve("cudnnConvolutionBiasActivationForward", true, x, w, convolution, y, algorithm,
                  workspace, activation);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t, const void*,
                                           const cudnnFilterDescriptor_t w, const void*,
                                           const cudnnTensorDescriptor_t dy, const void*,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void*,
                                           size_t workspace, const void*,
                                           const cudnnTensorDescriptor_t dx, void*) {
  return convolve("cudnnConvolutionBackwardData", true, dx, w, convolution, dy, algorithm,
                  workspace);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t, const void*,
                                             const cudnnTensorDescriptor_t x, const void*,
                                             const cudnnTensorDescriptor_t dy, const void*,
                                             const cudnnConvolutionDescriptor_t convolution,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void*,
                                             size_t workspace, const void*,
                                             const cudnnFilterDescriptor_t dw, void*) {
  return convolve("cudnnConvolutionBackwardFilter", true, x, dw, convolution, dy, algorithm,
                  workspace);
}

// NOLINTBEGIN(bugprone-macro-parentheses): the macro's arguments are types and parts of names.

// The functions that choose an algorithm, for each direction: its name, its type of algorithms, and
// the descriptors x, w and y in the order of the parameters, with the convolution before the last.
#define OPTRACE_ALGORITHMS(direction, type, first, second, third)                                  \
  cudnnStatus_t cudnnGetConvolution##direction##Algorithm_v7(                                      \
      cudnnHandle_t, const first, const second, const cudnnConvolutionDescriptor_t convolution,    \
      const third, const int requested, int* returned, type##Perf_t* results) {                    \
    const cudnnStatus_t status = convolve("cudnnGetConvolution" #direction "Algorithm_v7", false,  \
                                          x, w, convolution, y, k##direction[0].algorithm, 0);     \
    if (status != CUDNN_STATUS_SUCCESS) return status;                                             \
    return offer(k##direction, convolution, requested, returned, results);                         \
  }                                                                                                \
  cudnnStatus_t cudnnFindConvolution##direction##AlgorithmEx(                                      \
      cudnnHandle_t, const first, const void*, const second, const void*,                          \
      const cudnnConvolutionDescriptor_t convolution, const third, void*, const int requested,     \
      int* returned, type##Perf_t* results, void*, size_t workspace) {                             \
    const cudnnStatus_t status =                                                                   \
        convolve("cudnnFindConvolution" #direction "AlgorithmEx", true, x, w, convolution, y,      \
                 k##direction[0].algorithm, workspace);                                            \
    if (status != CUDNN_STATUS_SUCCESS) return status;                                             \
    return offer(k##direction, convolution, requested, returned, results);                         \
  }                                                                                                \
  cudnnStatus_t cudnnGetConvolution##direction##WorkspaceSize(                                     \
      cudnnHandle_t, const first, const second, const cudnnConvolutionDescriptor_t convolution,    \
      const third, type##_t algorithm, size_t* bytes) {                                            \
    const cudnnStatus_t status = convolve("cudnnGetConvolution" #direction "WorkspaceSize", false, \
                                          x, w, convolution, y, algorithm, 0);                     \
    return status != CUDNN_STATUS_SUCCESS ? status : no_workspace(bytes);                          \
  }

OPTRACE_ALGORITHMS(Forward, cudnnConvolutionFwdAlgo, cudnnTensorDescriptor_t x,
                   cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y)
OPTRACE_ALGORITHMS(BackwardData, cudnnConvolutionBwdDataAlgo, cudnnFilterDescriptor_t w,
                   cudnnTensorDescriptor_t y, cudnnTensorDescriptor_t x)
OPTRACE_ALGORITHMS(BackwardFilter, cudnnConvolutionBwdFilterAlgo, cudnnTensorDescriptor_t x,
                   cudnnTensorDescriptor_t y, cudnnFilterDescriptor_t w)
#undef OPTRACE_ALGORITHMS
// NOLINTEND(bugprone-macro-parentheses)

}  // extern "C"
