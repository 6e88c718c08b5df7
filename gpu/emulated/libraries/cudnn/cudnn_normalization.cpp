// The emulated libcudnn: batch normalization in the legacy API.

#include <string>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/libraries/cudnn/cudnn_descriptors.h"

namespace optrace::emulated {
namespace {

std::string batch_norm_mode_name(cudnnBatchNormMode_t mode) {
  return short_name(enumerator_name<cudnnBatchNormMode_t, 0, 3>(mode), "CUDNN_BATCHNORM_", mode);
}

std::string batch_norm_ops_name(cudnnBatchNormOps_t ops) {
  return short_name(enumerator_name<cudnnBatchNormOps_t, 0, 3>(ops), "CUDNN_BATCHNORM_OPS_", ops);
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
    const int expected = mode == CUDNN_BATCHNORM_PER_ACTIVATION ? x->dims[i] : 1;
    if (parameters->dims[i] != expected) return "the parameters' dimensions do not fit the mode";
  }
  return {};
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t parameters, const cudnnActivationDescriptor_t, size_t* bytes) {
  if (any_null(x, parameters)) return reject_null();
  return no_workspace(bytes);
}

cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t, const cudnnTensorDescriptor_t x,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t parameters,
    const cudnnActivationDescriptor_t, size_t* bytes) {
  if (any_null(x, parameters)) return reject_null();
  return no_workspace(bytes);
}

cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t ops, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t x, size_t* bytes) {
  if (any_null(x, bytes)) return reject_null();
  // With an activation, the reserve space has one bit per element for elements that were clipped.
  constexpr std::size_t kBits = 8;
  std::size_t elements = 1;
  for (const int dim : x->dims) elements *= static_cast<std::size_t>(dim);
  *bytes = ops == CUDNN_BATCHNORM_OPS_BN ? 0 : (elements + kBits - 1) / kBits;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t, cudnnBatchNormMode_t mode,
                                                      const void*, const void*,
                                                      const cudnnTensorDescriptor_t x, const void*,
                                                      const cudnnTensorDescriptor_t y, void*,
                                                      const cudnnTensorDescriptor_t parameters,
                                                      const void*, const void*, const void*,
                                                      const void*, double epsilon) {
  constexpr const char* kFunction = "cudnnBatchNormalizationForwardInference";
  if (any_null(x, y, parameters)) return reject_null();
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

cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void*, const void*,
    const cudnnTensorDescriptor_t x, const void*, const cudnnTensorDescriptor_t z, const void*,
    const cudnnTensorDescriptor_t y, void*, const cudnnTensorDescriptor_t parameters, const void*,
    const void*, double average_factor, void* running_mean, void* running_variance, double epsilon,
    void*, void*, cudnnActivationDescriptor_t activation, void*, size_t workspace, void*,
    size_t reserve) {
  constexpr const char* kFunction = "cudnnBatchNormalizationForwardTrainingEx";
  if (any_null(x, y, parameters)) return reject_null();
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

cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void*, const void*,
    const void*, const void*, const cudnnTensorDescriptor_t x, const void*,
    const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t dy, const void*,
    const cudnnTensorDescriptor_t dz, void*, const cudnnTensorDescriptor_t dx, void*,
    const cudnnTensorDescriptor_t parameters, const void*, const void*, void*, void*,
    double epsilon, const void*, const void*, cudnnActivationDescriptor_t activation, void*,
    size_t workspace, void*, size_t reserve) {
  constexpr const char* kFunction = "cudnnBatchNormalizationBackwardEx";
  if (any_null(x, dy, dx, parameters)) return reject_null();
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

}  // extern "C"
