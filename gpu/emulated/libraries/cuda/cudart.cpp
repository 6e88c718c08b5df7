// The CUDA runtime: errors, and what its other files share.

#include "gpu/emulated/libraries/cuda/cudart.h"

#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/libraries/cuda/error_texts.h"

namespace optrace::emulated {
namespace {

static_assert(static_cast<int>(Status::no_binary_for_device) == cudaErrorNoKernelImageForDevice);
static_assert(static_cast<int>(Status::invalid_handle) == cudaErrorInvalidResourceHandle);
static_assert(static_cast<int>(Status::capture_implicit) == cudaErrorStreamCaptureImplicit);
static_assert(static_cast<int>(Status::invalid_configuration) == cudaErrorInvalidConfiguration);
static_assert(static_cast<int>(CaptureMode::relaxed) == cudaStreamCaptureModeRelaxed);

thread_local cudaError_t last_error = cudaSuccess;

const char* error_name(cudaError_t error, const char* unknown) {
  constexpr std::size_t kErrors = 1000;
  return enumerator_text<cudaError_t, 0, kErrors>(error, unknown);
}

}  // namespace

cudaError_t result(cudaError_t error, const char* function) {
  if (error == cudaSuccess) return error;
  last_error = error;
  record_failure(function, error, error_name(error, ""));
  return error;
}

Status use_runtime() {
  constexpr int kMajor = 1000;
  return driver_version(CUDART_VERSION) / kMajor < CUDART_VERSION / kMajor
             ? Status::insufficient_driver
             : use_devices();
}

Status begin_unsafe() {
  const Status status = use_runtime();
  return status == Status::success ? check_unsafe_call() : status;
}

void record_synchronization(const char* function) {
  if (!recording()) return;
  Call call(function, "synchronize");
  call.record();
}

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) {
  return last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  return error_name(error, "unrecognized error code");
}

const char* cudaGetErrorString(cudaError_t error) {
  const char* const text = error_text(error);
  return text == nullptr ? "unrecognized error code" : text;
}

}  // extern "C"
