// cuFile on emulated devices, whose memory can be read into like any other.

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <cufile.h>
#include <fcntl.h>
#include <unistd.h>

#include "gpu/emulated/device/call_values.h"
#include "gpu/emulated/device/device.h"

namespace {

using optrace::emulated::Call;
using optrace::emulated::put;

constexpr CUfileError_t kSuccess{CU_FILE_SUCCESS, CUDA_SUCCESS};
constexpr CUfileError_t kInvalidValue{CU_FILE_INVALID_VALUE, CUDA_SUCCESS};

struct Registered {
  std::mutex mutex;
  std::uintptr_t next_file = 1;
  std::unordered_map<CUfileHandle_t, int> files;
  std::unordered_set<const void*> buffers;
};

Registered& registered() {
  static auto* const registered = new Registered;
  return *registered;
}

/// Returns the file opened for a handle, or -1.
int file_of(CUfileHandle_t handle) {
  Registered& known = registered();
  const std::lock_guard lock(known.mutex);
  const auto found = known.files.find(handle);
  return found == known.files.end() ? -1 : found->second;
}

void record(const char* function, const void* buffer, size_t size, off_t file_offset,
            ssize_t moved) {
  Call call(function, "copy");
  optrace::emulated::Allocation allocation{};
  const bool device = optrace::emulated::find_allocation(buffer, allocation);
  put(call.json(), "bytes", size);
  put(call.json(), "direction",
      std::string(function) == "cuFileRead" ? (device ? "file to device" : "file to host")
                                            : (device ? "device to file" : "host to file"));
  put(call.json(), "file_offset", static_cast<std::int64_t>(file_offset));
  put(call.json(), "moved", static_cast<std::int64_t>(moved));
  call.record();
}

}  // namespace

extern "C" {

OPTRACE_DEVICE_EXPORT CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr) {
  if (fh == nullptr || descr == nullptr || descr->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD)
    return kInvalidValue;
  // Opened again, because the caller's file has O_DIRECT, which requires aligned memory and sizes.
  // The real library copies data that is not aligned.
  const std::string path = "/proc/self/fd/" + std::to_string(descr->handle.fd);
  int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {CU_FILE_INVALID_FILE_TYPE, CUDA_SUCCESS};
  Registered& known = registered();
  const std::lock_guard lock(known.mutex);
  *fh = reinterpret_cast<CUfileHandle_t>(known.next_file++);  // NOLINT(performance-no-int-to-ptr)
  known.files.emplace(*fh, file);
  return kSuccess;
}

OPTRACE_DEVICE_EXPORT void cuFileHandleDeregister(CUfileHandle_t fh) {
  Registered& known = registered();
  const std::lock_guard lock(known.mutex);
  const auto found = known.files.find(fh);
  if (found == known.files.end()) return;
  close(found->second);
  known.files.erase(found);
}

OPTRACE_DEVICE_EXPORT CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length,
                                                      int /*flags*/) {
  if (bufPtr_base == nullptr || length == 0) return kInvalidValue;
  Registered& known = registered();
  const std::lock_guard lock(known.mutex);
  if (!known.buffers.insert(bufPtr_base).second)
    return {CU_FILE_MEMORY_ALREADY_REGISTERED, CUDA_SUCCESS};
  return kSuccess;
}

OPTRACE_DEVICE_EXPORT CUfileError_t cuFileBufDeregister(const void* bufPtr_base) {
  Registered& known = registered();
  const std::lock_guard lock(known.mutex);
  if (known.buffers.erase(bufPtr_base) == 0) return {CU_FILE_MEMORY_NOT_REGISTERED, CUDA_SUCCESS};
  return kSuccess;
}

OPTRACE_DEVICE_EXPORT ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size,
                                         off_t file_offset, off_t bufPtr_offset) {
  const int file = file_of(fh);
  if (file < 0 || bufPtr_base == nullptr) return -static_cast<ssize_t>(CU_FILE_INVALID_VALUE);
  const ssize_t moved =
      pread(file, static_cast<char*>(bufPtr_base) + bufPtr_offset, size, file_offset);
  record("cuFileRead", bufPtr_base, size, file_offset, moved);
  return moved;
}

OPTRACE_DEVICE_EXPORT ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size,
                                          off_t file_offset, off_t bufPtr_offset) {
  const int file = file_of(fh);
  if (file < 0 || bufPtr_base == nullptr) return -static_cast<ssize_t>(CU_FILE_INVALID_VALUE);
  const ssize_t moved =
      pwrite(file, static_cast<const char*>(bufPtr_base) + bufPtr_offset, size, file_offset);
  record("cuFileWrite", bufPtr_base, size, file_offset, moved);
  return moved;
}

}  // extern "C"
