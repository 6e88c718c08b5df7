// Calls of the real cuBLASLt. The contents of its layouts and descriptors are stored when they are
// created.

#include <mutex>
#include <unordered_map>
#include <utility>

#include <cublasLt.h>

#include "gpu/arguments/cublaslt_product.h"
#include "gpu/emulated/device/device.h"
#include "gpu/recorder/forwards.h"

namespace {

using namespace optrace::emulated;
using optrace::cuda_calls::redirection;

decltype(&cublasLtMatrixLayoutCreate) original_create_layout = nullptr;
decltype(&cublasLtMatrixLayoutDestroy) original_destroy_layout = nullptr;
decltype(&cublasLtMatrixLayoutSetAttribute) original_set_layout = nullptr;
decltype(&cublasLtMatmulDescCreate) original_create_descriptor = nullptr;
decltype(&cublasLtMatmulDescDestroy) original_destroy_descriptor = nullptr;
decltype(&cublasLtMatmulDescSetAttribute) original_set_descriptor = nullptr;
decltype(&cublasLtMatmulAlgoConfigGetAttribute) original_get_configured = nullptr;
decltype(&cublasLtMatmul) original_matmul = nullptr;

/// Attributes by layout or descriptor. Never destroyed, because threads may outlive main().
struct Objects {
  std::mutex mutex;
  std::unordered_map<const void*, Attributes> attributes;
};

Objects& objects() {
  static Objects* const made = new Objects;
  return *made;
}

void keep(const void* handle, Attributes attributes) {
  const std::lock_guard<std::mutex> lock(objects().mutex);
  objects().attributes[handle] = std::move(attributes);
}

void drop(const void* handle) {
  const std::lock_guard<std::mutex> lock(objects().mutex);
  objects().attributes.erase(handle);
}

void keep_attribute(const void* handle, int name, const void* value, std::size_t size) {
  const std::lock_guard<std::mutex> lock(objects().mutex);
  const auto found = objects().attributes.find(handle);
  if (found == objects().attributes.end() || value == nullptr) return;
  const char* const bytes = static_cast<const char*>(value);
  found->second.bytes[name].assign(bytes, bytes + size);
}

/// Returns null for a handle created before recording of calls was started.
const Attributes* attributes_of(const void* handle) {
  const auto found = objects().attributes.find(handle);
  return found == objects().attributes.end() ? nullptr : &found->second;
}

cublasStatus_t create_layout(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                             uint64_t columns, int64_t ld) {
  const cublasStatus_t status = original_create_layout(layout, type, rows, columns, ld);
  if (status == CUBLAS_STATUS_SUCCESS && layout != nullptr)
    keep(*layout, layout_attributes(type, rows, columns, ld));
  return status;
}

cublasStatus_t destroy_layout(cublasLtMatrixLayout_t layout) {
  drop(layout);
  return original_destroy_layout(layout);
}

cublasStatus_t set_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                          const void* value, size_t size) {
  const cublasStatus_t status = original_set_layout(layout, name, value, size);
  if (status == CUBLAS_STATUS_SUCCESS) keep_attribute(layout, name, value, size);
  return status;
}

cublasStatus_t create_descriptor(cublasLtMatmulDesc_t* descriptor, cublasComputeType_t compute,
                                 cudaDataType_t scale) {
  const cublasStatus_t status = original_create_descriptor(descriptor, compute, scale);
  if (status == CUBLAS_STATUS_SUCCESS && descriptor != nullptr)
    keep(*descriptor, descriptor_attributes(compute, scale));
  return status;
}

cublasStatus_t destroy_descriptor(cublasLtMatmulDesc_t descriptor) {
  drop(descriptor);
  return original_destroy_descriptor(descriptor);
}

cublasStatus_t set_descriptor(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t name,
                              const void* value, size_t size) {
  const cublasStatus_t status = original_set_descriptor(descriptor, name, value, size);
  if (status == CUBLAS_STATUS_SUCCESS) keep_attribute(descriptor, name, value, size);
  return status;
}

// Defined so that the original can be called below if PyTorch imports the function.
cublasStatus_t get_configured(const cublasLtMatmulAlgo_t* algorithm,
                              cublasLtMatmulAlgoConfigAttributes_t name, void* value, size_t size,
                              size_t* written) {
  return original_get_configured(algorithm, name, value, size, written);
}

std::uint32_t configured(const cublasLtMatmulAlgo_t& algorithm, int attribute) {
  std::uint32_t value = 0;
  original_get_configured(&algorithm, static_cast<cublasLtMatmulAlgoConfigAttributes_t>(attribute),
                          &value, sizeof value, nullptr);
  return value;
}

void record(cublasLtMatmulDesc_t descriptor, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
            cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
            const cublasLtMatmulAlgo_t* algorithm, std::size_t workspace) {
  const std::lock_guard<std::mutex> lock(objects().mutex);
  const Attributes* const all[] = {attributes_of(descriptor), attributes_of(a), attributes_of(b),
                                   attributes_of(c), attributes_of(d)};
  for (const Attributes* const one : all) {
    if (one != nullptr) continue;
    Call call("cublasLtMatmul", "library");
    call.record();
    return;
  }
  record_product({*all[0], *all[1], *all[2], *all[3], *all[4]},
                 original_get_configured == nullptr ? nullptr : algorithm, &configured, workspace,
                 nullptr);
}

cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void* alpha,
                      const void* left, cublasLtMatrixLayout_t a, const void* right,
                      cublasLtMatrixLayout_t b, const void* beta, const void* added,
                      cublasLtMatrixLayout_t c, void* result, cublasLtMatrixLayout_t d,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                      cudaStream_t stream) {
  const CalledAt here(__builtin_frame_address(0));
  if (recording()) record(descriptor, a, b, c, d, algorithm, bytes);
  const cublasStatus_t status =
      original_matmul(handle, descriptor, alpha, left, a, right, b, beta, added, c, result, d,
                      algorithm, workspace, bytes, stream);
  if (status != CUBLAS_STATUS_SUCCESS) record_failure("cublasLtMatmul", status, "");
  return status;
}

const optrace_agent_redirection kProductCalls[] = {
    redirection("cublasLtMatrixLayoutCreate", &create_layout, &original_create_layout),
    redirection("cublasLtMatrixLayoutDestroy", &destroy_layout, &original_destroy_layout),
    redirection("cublasLtMatrixLayoutSetAttribute", &set_layout, &original_set_layout),
    redirection("cublasLtMatmulDescCreate", &create_descriptor, &original_create_descriptor),
    redirection("cublasLtMatmulDescDestroy", &destroy_descriptor, &original_destroy_descriptor),
    redirection("cublasLtMatmulDescSetAttribute", &set_descriptor, &original_set_descriptor),
    redirection("cublasLtMatmulAlgoConfigGetAttribute", &get_configured, &original_get_configured),
    redirection("cublasLtMatmul", &matmul, &original_matmul),
};
[[maybe_unused]] const bool added_product_calls =
    optrace::cuda_calls::add({kProductCalls, std::size(kProductCalls)});

}  // namespace
