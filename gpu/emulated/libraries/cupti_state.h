#pragma once

// What the emulated CUPTI stores: its subscriber, and what is enabled.

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>

#include <cupti.h>

#include "gpu/emulated/streams/device_observer.h"

struct CUpti_Subscriber_st {};

namespace optrace::emulated {

struct Function {
  const char* name;  ///< Name used by the runtime and the driver.
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
  const char* traced_name;  ///< Name used by CUPTI.
};

#define RUNTIME(name, version)                                                       \
  Function {                                                                         \
    #name, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##name##_##version, \
        #name "_" #version                                                           \
  }
#define DRIVER(name)                                                         \
  Function {                                                                 \
    #name, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, #name \
  }
inline constexpr Function kFunctions[] = {
    RUNTIME(cudaLaunchKernel, v7000),
    RUNTIME(cudaLaunchCooperativeKernel, v9000),
    RUNTIME(cudaLaunchKernelExC, v11060),
    RUNTIME(cudaGraphLaunch, v10000),
    RUNTIME(cudaMemcpy, v3020),
    RUNTIME(cudaMemcpyAsync, v3020),
    RUNTIME(cudaMemcpy2D, v3020),
    RUNTIME(cudaMemcpy2DAsync, v3020),
    RUNTIME(cudaMemcpyPeer, v4000),
    RUNTIME(cudaMemcpyPeerAsync, v4000),
    RUNTIME(cudaMemcpyToSymbol, v3020),
    RUNTIME(cudaMemcpyToSymbolAsync, v3020),
    RUNTIME(cudaMemcpyFromSymbol, v3020),
    RUNTIME(cudaMemset, v3020),
    RUNTIME(cudaMemsetAsync, v3020),
    RUNTIME(cudaMemset2D, v3020),
    RUNTIME(cudaMemset2DAsync, v3020),
    DRIVER(cuLaunchKernel),
    DRIVER(cuLaunchCooperativeKernel),
    DRIVER(cuLaunchKernelEx),
    DRIVER(cuGraphLaunch),
    DRIVER(cuMemcpyHtoD_v2),
    DRIVER(cuMemcpyDtoH_v2),
    DRIVER(cuMemcpyDtoD_v2),
    DRIVER(cuMemcpyHtoDAsync_v2),
    DRIVER(cuMemcpyDtoHAsync_v2),
    DRIVER(cuMemcpyDtoDAsync_v2),
    DRIVER(cuMemsetD8_v2),
    DRIVER(cuMemsetD8Async),
    DRIVER(cuMemsetD32_v2),
    DRIVER(cuMemsetD32Async),
};
#undef RUNTIME
#undef DRIVER

inline constexpr int kLastKind = CUPTI_ACTIVITY_KIND_COUNT;

struct Buffer {
  std::uint8_t* bytes;
  std::size_t size;
  std::size_t used;
};

struct CuptiState {
  CUpti_Subscriber_st* subscriber = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  std::bitset<std::size(kFunctions)> enabled;  // Functions with callbacks enabled.
  std::bitset<kLastKind> kinds;                // Activity kinds enabled.
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc timestamp = nullptr;
  Buffer filling{};
  std::size_t dropped = 0;
};

extern std::mutex cupti_mutex;  // Not locked while a callback is called.

CuptiState& state();

/// Sets or removes the observer. Requires cupti_mutex to be locked.
void update_observer();

// The number of a real device's default stream; other streams have higher numbers.
inline constexpr std::uint32_t kDefaultStream = 7;

inline std::uint32_t context_id(int device) {
  return static_cast<std::uint32_t>(device) + 1;
}

// Activities: cupti_activities.cpp.

/// Passes the buffer that is being filled to its reader.
void flush();

/// Adds the activity of a call.
void add_call(const Function& function, std::uint32_t number);

/// Adds the activity of a kernel, copy or fill.
void on_work(const Work& work, std::uint32_t number, std::uint64_t stream);

}  // namespace optrace::emulated
