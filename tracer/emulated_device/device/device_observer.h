#pragma once

// What a profiler sees of the devices: the calls that have them work, and the work. The library of
// CUPTI looks, the runtime and the driver tell.

#include <cstddef>
#include <cstdint>
#include <string>

#include "tracer/emulated_device/device/device.h"

namespace optrace::emulated {

/// What a device does at once: a kernel (which isn't executed), a copy or a fill.
struct Work {
  enum class Kind { kernel, copy, fill };
  Kind kind = Kind::kernel;
  std::string kernel;  ///< Mangled.
  unsigned grid[3] = {0, 0, 0};
  unsigned block[3] = {0, 0, 0};
  unsigned cluster[3] = {0, 0, 0};
  std::size_t dynamic_shared = 0;
  std::size_t static_shared = 0;
  int registers = 0;
  std::size_t bytes = 0;  ///< Of copies and fills.
  int direction = 0;      ///< Of copies; numbered as cudaMemcpyKind.
};

/// Both functions may be called by any number of threads at once.
struct Observer {
  /// A function of the runtime's or the driver's begins or ends, on this thread. `number` tells
  /// calls apart.
  void (*call)(const char* function, bool begins, std::uint32_t number);
  /// The work of that call, or of a graph that it launches, on a stream of that number (0: a
  /// default one).
  void (*work)(const Work& work, std::uint32_t number, std::uint64_t stream);
};

/// From now on that one looks; null: nobody.
OPTRACE_DEVICE_EXPORT void observe_with(const Observer* observer);

/// Whether anybody looks.
OPTRACE_DEVICE_EXPORT bool observed();

/// A call of `function` that has a device work, if anybody looks. Inside of another one it is a
/// part of that.
class OPTRACE_DEVICE_EXPORT ObservedCall {
 public:
  explicit ObservedCall(const char* function);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

  void tell(const Work& work, std::uint64_t stream) const;

 private:
  const Observer* observer_;
  const char* function_;
  bool outermost_ = false;
};

}  // namespace optrace::emulated
