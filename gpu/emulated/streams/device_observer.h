#pragma once

// Interface for a profiler: calls that give devices work, and that work. The emulated CUPTI
// observes; the runtime and the driver report.

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {

/// A unit of device work: a kernel (which is not executed), a copy or a fill.
struct Work {
  enum class Kind { kernel, copy, fill };
  Kind kind = Kind::kernel;
  std::string kernel;  ///< Mangled name.
  unsigned grid[3] = {0, 0, 0};
  unsigned block[3] = {0, 0, 0};
  unsigned cluster[3] = {0, 0, 0};
  std::size_t dynamic_shared = 0;
  std::size_t static_shared = 0;
  int registers = 0;
  std::size_t local = 0;  ///< Memory per thread, in bytes.
  std::size_t bytes = 0;  ///< Of a copy or fill.
  int direction = 0;      ///< Of a copy; values of cudaMemcpyKind.
};

/// Callbacks. Any number of threads may call them at once.
struct Observer {
  /// Called when a function of the runtime or the driver begins or ends on this thread. `number`
  /// identifies the call.
  void (*call)(const char* function, bool begins, std::uint32_t number);
  /// Called for the work of that call, or of a graph that it launches. `stream` is the number of
  /// the stream, 0 for a default one.
  void (*work)(const Work& work, std::uint32_t number, std::uint64_t stream);
};

/// Sets the observer; null removes it.
OPTRACE_DEVICE_EXPORT void observe_with(const Observer* observer);

/// Returns true if there is an observer.
OPTRACE_DEVICE_EXPORT bool observed();

/// Reports a call of `function`, which gives a device work, to the observer. A nested call is part
/// of the outer one.
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
