// cuFFT on emulated devices. Plans store their sizes and types; transforms are recorded.

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <cufftXt.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/cuda_data_types.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_versions.h"

namespace {

using namespace optrace::emulated;

struct Plan {
  std::vector<long long> sizes;  // Empty until the plan is made.
  long long batch = 0;
  long long input_stride = 0;
  long long output_stride = 0;
  cudaDataType input = CUDA_C_32F;
  cudaDataType output = CUDA_C_32F;
  cudaDataType execution = CUDA_C_32F;
  std::size_t work_bytes = 0;
};

std::mutex plans_mutex;

std::unordered_map<cufftHandle, std::shared_ptr<Plan>>& plans() {
  static auto* const plans = new std::unordered_map<cufftHandle, std::shared_ptr<Plan>>;
  return *plans;
}

std::shared_ptr<Plan> find(cufftHandle handle) {
  const std::lock_guard lock(plans_mutex);
  const auto found = plans().find(handle);
  return found == plans().end() ? nullptr : found->second;
}

cufftResult refuse(const char* function, cufftResult result, const std::string& why) {
  record_refusal(function, why, result, enumerator_name<cufftResult, 0, 16>(result));
  return result;
}

bool is_power_of_two(long long size) {
  return size > 0 && (size & (size - 1)) == 0;
}

/// Rejects the combinations excluded by cuFFT's documentation ("Half-precision cuFFT Transforms",
/// "Bfloat16-precision cuFFT Transforms").
cufftResult check_types(const Plan& plan) {
  const bool half = plan.execution == CUDA_C_16F;
  const bool bfloat = plan.execution == CUDA_C_16BF;
  constexpr int kFirstWithBfloat = 8;
  if (bfloat && gpu_model().major < kFirstWithBfloat)
    return refuse("cufftXtMakePlanMany", CUFFT_NOT_SUPPORTED, "bfloat16 below sm_80");
  if (half || bfloat)
    for (const long long size : plan.sizes)
      if (!is_power_of_two(size))
        return refuse("cufftXtMakePlanMany", CUFFT_INVALID_SIZE,
                      "half precision of size " + std::to_string(size) + ", no power of two");
  return CUFFT_SUCCESS;
}

}  // namespace

extern "C" {

cufftResult cufftCreate(cufftHandle* handle) {
  if (handle == nullptr) return CUFFT_INVALID_VALUE;
  const std::lock_guard lock(plans_mutex);
  static cufftHandle next = 1;
  *handle = next++;
  plans().emplace(*handle, std::make_shared<Plan>());
  return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle plan) {
  const std::lock_guard lock(plans_mutex);
  return plans().erase(plan) == 1 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftSetAutoAllocation(cufftHandle plan, int) {
  return find(plan) == nullptr ? CUFFT_INVALID_PLAN : CUFFT_SUCCESS;
}

cufftResult cufftSetStream(cufftHandle plan, cudaStream_t) {
  return find(plan) == nullptr ? CUFFT_INVALID_PLAN : CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle plan, void* workArea) {
  const std::shared_ptr<Plan> made = find(plan);
  if (made == nullptr) return CUFFT_INVALID_PLAN;
  return workArea == nullptr && made->work_bytes > 0 ? CUFFT_INVALID_VALUE : CUFFT_SUCCESS;
}

cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long int* n, long long int*,
                                long long int istride, long long int, cudaDataType inputtype,
                                long long int*, long long int ostride, long long int,
                                cudaDataType outputtype, long long int batch, size_t* workSize,
                                cudaDataType executiontype) {
  constexpr int kMaxDimensions = 3;
  const std::shared_ptr<Plan> made = find(plan);
  if (made == nullptr || !made->sizes.empty()) return CUFFT_INVALID_PLAN;
  if (rank < 1 || rank > kMaxDimensions || n == nullptr || batch < 1)
    return refuse("cufftXtMakePlanMany", CUFFT_INVALID_SIZE,
                  std::to_string(rank) + " dimensions, batch " + std::to_string(batch));
  for (int i = 0; i < rank; ++i)
    if (n[i] < 1)
      return refuse("cufftXtMakePlanMany", CUFFT_INVALID_SIZE, "size " + std::to_string(n[i]));
  Plan planned;
  planned.sizes.assign(n, n + rank);
  planned.batch = batch;
  planned.input_stride = istride;
  planned.output_stride = ostride;
  planned.input = inputtype;
  planned.output = outputtype;
  planned.execution = executiontype;
  if (const cufftResult result = check_types(planned); result != CUFFT_SUCCESS) return result;
  // "cuFFT ... uses temporary space that is dependent on the plan". The real size is not
  // documented; most plans need space for the whole signal as complex numbers.
  planned.work_bytes = static_cast<std::size_t>(batch) * data_type_bytes(executiontype);
  for (const long long size : planned.sizes) planned.work_bytes *= static_cast<std::size_t>(size);
  *made = planned;
  if (workSize != nullptr) *workSize = planned.work_bytes;
  return CUFFT_SUCCESS;
}

cufftResult cufftXtExec(cufftHandle plan, void* input, void* output, int direction) {
  const std::shared_ptr<Plan> made = find(plan);
  if (made == nullptr || made->sizes.empty()) return CUFFT_INVALID_PLAN;
  if (input == nullptr || output == nullptr) return CUFFT_INVALID_VALUE;
  library_wrote(output);
  if (!recording()) return CUFFT_SUCCESS;
  Call call("cufftXtExec", "library");
  auto& json = call.json();
  put(json, "sizes", made->sizes);
  put(json, "batch", std::int64_t{made->batch});
  put(json, "direction", direction == CUFFT_FORWARD ? "forward" : "inverse");
  put(json, "input", data_type_name(made->input));
  put(json, "output", data_type_name(made->output));
  put(json, "execution", data_type_name(made->execution));
  put(json, "input_stride", std::int64_t{made->input_stride});
  put(json, "output_stride", std::int64_t{made->output_stride});
  call.record();
  return CUFFT_SUCCESS;
}

}  // extern "C"
