#pragma once

// The emulated CUDA device: what its libraries share. It is shipped as source and built for the
// torch at hand against the headers of the nvidia wheels
// (tracer/runtime_build/emulated_device_build.h), one library for each that torch's own libraries
// need (libcudart.so.12, libcudnn.so.9, ...), with the same SONAME and symbol versions, so that the
// loader takes them for the real ones. This header is liboptrace_device.so, which all of them link.
//
// Rules for every function that stands in for one of CUDA's: its outputs are filled or it fails;
// what nobody has thought about calls unimplemented() and fails; nothing succeeds silently.

#include <cstddef>
#include <cstdint>
#include <string>

#include "tracer/emulated_device/device_parts.h"
#include "tracer/in_process/op_records/json_text.h"

#define OPTRACE_DEVICE_EXPORT __attribute__((visibility("default")))

namespace optrace::emulated {

/// What every emulated device is: $OPTRACE_DRY_RUN says so ("sm_90", "rtx-4090,sms=100").
OPTRACE_DEVICE_EXPORT const Part& part();

/// How many there are: $OPTRACE_DRY_RUN_DEVICES, 1 to 64; else 1.
OPTRACE_DEVICE_EXPORT int device_count();

/// The newest CUDA that the emulated driver knows, as cuDriverGetVersion says it (12040 is 12.4):
/// `usual`, unless $OPTRACE_DRY_RUN_DRIVER names an older one ("11.8").
OPTRACE_DEVICE_EXPORT int driver_version(int usual);

/// A call of `function` that nobody has thought about: says so on standard error the first time,
/// and counts it for the report. The caller then fails with its library's own error.
OPTRACE_DEVICE_EXPORT void unimplemented(const char* function);

/// What a call decides on, for the trace: belongs to the frame of the function that is running.
///
///     Call call("cublasSgemm_v2", "library");
///     call.json().key("m"), call.json().number(m);
///     call.record();
///
/// Recorded calls that are alike are kept once and counted. When nothing is being recorded this
/// costs nearly nothing; ask recording() before working out what is expensive.
class OPTRACE_DEVICE_EXPORT Call {
 public:
  /// `kind`: "library" (a library does work), "kernel" (a launch; keys kernel: mangled name, grid,
  /// block: [x, y, z], shared_memory: bytes, stream: number), "copy" or "fill" (bytes, direction:
  /// "host to device" and so on), "host_read" (the host gets values from device memory: what it
  /// decides from them is not known), "synchronize", "refused" (as the real library would; keys
  /// why, and error and status as of "failed"), "failed" (record_failure), "unimplemented".
  Call(const char* function, const char* kind);

  /// Between the object's brackets: add keys and values.
  optrace_ops::JsonText& json() { return json_; }

  /// Once, at the end.
  void record();

 private:
  optrace_ops::JsonText json_;
  bool library_;
  bool told_elsewhere_;
};

/// While it lives, what the calling thread records belongs to whoever called the function whose
/// frame address this is, instead of to the function that is running.
class OPTRACE_DEVICE_EXPORT CalledAt {
 public:
  explicit CalledAt(const void* frame);
  ~CalledAt();
  CalledAt(const CalledAt&) = delete;
  CalledAt& operator=(const CalledAt&) = delete;

 private:
  const void* before_;
};

/// Records that `function` failed with an error of the runtime's or the driver's: kind "failed",
/// keys error: its number, status: its name (empty: unknown). Not what programs ask for in the
/// normal course of things and get such an answer to: whether an event has happened yet, whether
/// the driver has a function.
OPTRACE_DEVICE_EXPORT void record_failure(const char* function, int error, const char* name);

/// Whether anything is being recorded.
OPTRACE_DEVICE_EXPORT bool recording();

// Device memory is host memory, reserved but not committed until it is touched.

enum class MemoryKind { device, pinned, managed };

/// Null when the part's memory (device and managed) does not suffice. `device`: ordinal.
OPTRACE_DEVICE_EXPORT void* allocate(std::size_t bytes, MemoryKind kind, int device);

/// False for what allocate() did not give.
OPTRACE_DEVICE_EXPORT bool release(void* pointer);

struct Allocation {
  void* pointer;
  std::size_t bytes;
  MemoryKind kind;
  int device;
};

/// The allocation that `pointer` lies in; false for ordinary host memory.
OPTRACE_DEVICE_EXPORT bool find_allocation(const void* pointer, Allocation& found);

/// Bytes allocated on a device.
OPTRACE_DEVICE_EXPORT std::uint64_t used_memory(int device);

/// The calling thread's current device.
OPTRACE_DEVICE_EXPORT int current_device();
OPTRACE_DEVICE_EXPORT void set_current_device(int device);

/// What stands for a device's context, the only one that it has.
OPTRACE_DEVICE_EXPORT void* context_of(int device);

/// Device memory that a library's call may have written, to the end of the block that the address
/// lies in, reads as zeros from now on. Nothing happens to other memory.
OPTRACE_DEVICE_EXPORT void library_wrote(const void* pointer);

}  // namespace optrace::emulated

extern "C" {

/// The in-process agent's functions, as tracer/in_process/agent/interface/agent.h has them. From
/// then on calls are recorded whenever the agent records. 0, or -EINVAL.
struct optrace_device_functions {
  int (*note)(std::uint32_t kind, std::uint32_t record, std::uint64_t number, std::uint64_t thread);
  std::uint32_t (*new_record)(void);
  int (*keep_record)(std::uint32_t id, const char* text, std::uint64_t size);
  std::uint32_t (*recording)(void);
};
OPTRACE_DEVICE_EXPORT int optrace_device_use(const struct optrace_device_functions* functions);

/// How often functions were called that nobody has thought about.
OPTRACE_DEVICE_EXPORT std::uint64_t optrace_device_unimplemented(void);

}  // extern "C"
