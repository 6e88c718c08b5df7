#pragma once

// The emulated CUDA device: code shared by its libraries. It is shipped as source and built for the
// installed PyTorch with the headers of the nvidia wheels
// (gpu/build/emulated_device_build.h). There is one library for each that PyTorch's own
// libraries need (libcudart.so.12, libcudnn.so.9, ...), with the same SONAME and symbol versions,
// so the loader uses it instead of the real one. This header is that of liboptrace_device.so, which
// all of them link.
//
// Rules for every function that replaces one of CUDA's: it sets its outputs or fails. A function
// that is not implemented calls unimplemented() and fails. None succeeds silently.

#include <cstddef>
#include <cstdint>

#include "gpu/models/gpu_model.h"
#include "target/interface/recorder.h"
#include "target/recorder/json_text.h"

#define OPTRACE_DEVICE_EXPORT __attribute__((visibility("default")))

namespace optrace::emulated {

/// The GPU model that every emulated device is, selected by $OPTRACE_DRY_RUN ("sm_90",
/// "rtx-4090,sms=100").
OPTRACE_DEVICE_EXPORT const GpuModel& gpu_model();

constexpr int kMaxDevices = 64;

/// Number of emulated devices: $OPTRACE_DRY_RUN_DEVICES, 1 to kMaxDevices; otherwise 1.
OPTRACE_DEVICE_EXPORT int device_count();

/// The newest CUDA version that the emulated driver supports, in the format of cuDriverGetVersion
/// (12040 is 12.4): `usual`, unless $OPTRACE_DRY_RUN_DRIVER names an older one ("11.8").
OPTRACE_DEVICE_EXPORT int driver_version(int usual);

/// Reports a call of `function`, which is not implemented: prints a message to standard error the
/// first time and counts the call for the report. The caller then fails with its library's own
/// error.
OPTRACE_DEVICE_EXPORT void unimplemented(const char* function);

/// A record of the trace that describes a call. It belongs to the frame of the function that is
/// running.
///
///     Call call("cublasSgemm_v2", "library");
///     call.json().key("m"), call.json().number(m);
///     call.record();
///
/// Identical calls share one record and are counted. The cost is negligible when nothing is being
/// recorded; check recording() before computing expensive values.
class OPTRACE_DEVICE_EXPORT Call {
 public:
  /// `kind`: "library" (a library does work), "kernel" (a launch; keys kernel: mangled name, grid,
  /// block: [x, y, z], shared_memory: bytes, stream: number), "copy" or "fill" (bytes, direction:
  /// "host to device" and so on), "host_read" (the host gets values from device memory, so its
  /// further decisions are unknown), "synchronize", "refused" (as by the real library; keys why,
  /// and error and status as for "failed"), "failed" (record_failure), "unimplemented".
  Call(const char* function, const char* kind);

  /// Adds keys and values to the record's JSON object.
  optrace_ops::JsonText& json() { return json_; }

  /// Records the call. To be called once, at the end.
  void record();

 private:
  optrace_ops::JsonText json_;
  bool library_;
  bool recorded_by_cupti_;
};

/// During its lifetime, records of the calling thread belong to the caller of the function with
/// this frame address, instead of to the function that is running.
class OPTRACE_DEVICE_EXPORT CalledAt {
 public:
  explicit CalledAt(const void* frame);
  ~CalledAt();
  CalledAt(const CalledAt&) = delete;
  CalledAt& operator=(const CalledAt&) = delete;

 private:
  const void* before_;
};

/// Records that `function` failed with an error of the runtime or the driver: kind "failed", keys
/// error: its number, status: its name (empty: unknown). Not used for queries whose normal result
/// is an error: if an event has completed, if the driver has a function.
OPTRACE_DEVICE_EXPORT void record_failure(const char* function, int error, const char* name);

/// Returns true if anything is being recorded.
OPTRACE_DEVICE_EXPORT bool recording();

// Device memory is host memory, reserved but not committed until it is accessed.

enum class MemoryKind { device, pinned, managed };

/// Returns null if the GPU model's memory (for device and managed memory) is exhausted. `device` is
/// an ordinal.
OPTRACE_DEVICE_EXPORT void* allocate(std::size_t bytes, MemoryKind kind, int device);

/// Returns false for memory that allocate() did not return.
OPTRACE_DEVICE_EXPORT bool release(void* pointer);

struct Allocation {
  void* pointer;
  std::size_t bytes;
  MemoryKind kind;
  int device;
};

/// Finds the allocation that contains `pointer`. Returns false for ordinary host memory.
OPTRACE_DEVICE_EXPORT bool find_allocation(const void* pointer, Allocation& found);

/// Number of bytes allocated on a device.
OPTRACE_DEVICE_EXPORT std::uint64_t used_memory(int device);

/// Ordinal of the calling thread's current device.
OPTRACE_DEVICE_EXPORT int current_device();
OPTRACE_DEVICE_EXPORT void set_current_device(int device);

/// Returns the only context of a device.
OPTRACE_DEVICE_EXPORT void* context_of(int device);

/// Marks device memory that a library's call may have written, from the address to the end of its
/// block, as zeros. Does nothing for other memory.
OPTRACE_DEVICE_EXPORT void library_wrote(const void* pointer);

}  // namespace optrace::emulated

extern "C" {

/// Passes the agent's functions. From then on, calls are recorded whenever the agent records.
/// Returns 0, or -EINVAL if a function is missing.
OPTRACE_DEVICE_EXPORT int optrace_device_use(const struct optrace_recorder_functions* functions);

/// Number of calls of functions that are not implemented.
OPTRACE_DEVICE_EXPORT std::uint64_t optrace_device_unimplemented(void);

}  // extern "C"
