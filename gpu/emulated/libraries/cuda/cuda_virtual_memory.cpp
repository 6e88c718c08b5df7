// The CUDA driver: virtual memory. A program maps pieces of memory into ranges of addresses.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/arguments/call_values.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/libraries/cuda/cuda_result.h"
#include "gpu/emulated/memory/device_memory.h"

namespace optrace::emulated {
namespace {

constexpr std::size_t kGranularity = 2ULL << 20;

// Memory mapped by the program: address ranges, and pieces of a file in memory that are mapped into
// them.

struct Piece {
  std::uint64_t offset;  // Within the file.
  std::size_t bytes;
  int device;
  CUmemAllocationProp properties;
  int mapped;
  bool released;
};

std::mutex pieces_mutex;
const HeldAcrossFork<pieces_mutex> pieces_held;

struct Pieces {
  int file = -1;
  std::uint64_t size = 0;  // Size of the file. Offsets are never reused.
  CUmemGenericAllocationHandle last = 0;
  std::map<CUmemGenericAllocationHandle, Piece> all;
  std::map<CUdeviceptr, std::size_t> ranges;
  struct Mapped {
    std::size_t bytes;
    CUmemGenericAllocationHandle piece;
  };
  std::map<CUdeviceptr, Mapped> mapped;
};

Pieces& pieces() {
  static auto* const pieces = new Pieces;
  return *pieces;
}

/// Returns true if the whole range is in a reserved one. Requires pieces_mutex to be locked.
bool reserved(CUdeviceptr address, std::size_t bytes) {
  auto next = pieces().ranges.upper_bound(address);
  if (next == pieces().ranges.begin()) return false;
  --next;
  const std::uint64_t offset = address - next->first;
  return offset <= next->second && bytes <= next->second - offset;
}

bool mapped_in(CUdeviceptr address, std::size_t bytes) {
  const auto next = pieces().mapped.lower_bound(address);
  if (next != pieces().mapped.end() && next->first - address < bytes) return true;
  if (next == pieces().mapped.begin()) return false;
  const auto before = std::prev(next);
  return address - before->first < before->second.bytes;
}

/// Frees a piece that is neither mapped nor held any more. Returns its size in bytes, or 0 if it is
/// in use.
std::size_t drop_if_unused(CUmemGenericAllocationHandle handle, int& device) {
  const auto found = pieces().all.find(handle);
  if (found == pieces().all.end() || !found->second.released || found->second.mapped != 0) return 0;
  const Piece piece = found->second;
  ::fallocate(pieces().file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(piece.offset), static_cast<off_t>(piece.bytes));
  pieces().all.erase(found);
  device = piece.device;
  return piece.bytes;
}

CUresult refuse_sharing(const char* function = __builtin_FUNCTION()) {
  record_refusal(function, "emulated device memory is not shared between processes");
  return outcome(CUDA_ERROR_NOT_SUPPORTED, function);
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

// Expandable segments: an address range is reserved first, and memory is mapped there on demand.

CUresult cuMemGetAllocationGranularity(std::size_t* granularity,
                                       const CUmemAllocationProp* requested,
                                       CUmemAllocationGranularity_flags) {
  if (granularity == nullptr || requested == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr, unsigned long long flags) {
  if (address == nullptr || bytes == 0 || bytes % kGranularity != 0 || flags != 0 ||
      alignment > kGranularity || bytes > std::numeric_limits<std::size_t>::max() - kGranularity)
    return outcome(CUDA_ERROR_INVALID_VALUE);
  void* const all = ::mmap(nullptr, bytes + kGranularity, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return outcome(CUDA_ERROR_OUT_OF_MEMORY);
  // Align the range and free the excess at both ends.
  const CUdeviceptr first = address_of(all);
  const CUdeviceptr aligned = (first + kGranularity - 1) / kGranularity * kGranularity;
  if (aligned != first) ::munmap(all, aligned - first);
  if (first + kGranularity != aligned)
    ::munmap(pointer_of(aligned + bytes), first + kGranularity - aligned);
  const std::lock_guard lock(pieces_mutex);
  pieces().ranges[aligned] = bytes;
  *address = aligned;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(pieces_mutex);
  const auto found = pieces().ranges.find(address);
  if (found == pieces().ranges.end() || found->second != bytes || mapped_in(address, bytes))
    return outcome(CUDA_ERROR_INVALID_VALUE);
  pieces().ranges.erase(found);
  ::munmap(pointer_of(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* requested, unsigned long long flags) {
  if (handle == nullptr || requested == nullptr || bytes == 0 || bytes % kGranularity != 0 ||
      flags != 0 || requested->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(requested->location.id)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  if (!take_memory(bytes, requested->location.id)) return outcome(CUDA_ERROR_OUT_OF_MEMORY);
  bool made = false;
  {
    const std::lock_guard lock(pieces_mutex);
    Pieces& all = pieces();
    if (all.file < 0) all.file = ::memfd_create("optrace-device-memory", MFD_CLOEXEC);
    made = all.file >= 0 && ::ftruncate(all.file, static_cast<off_t>(all.size + bytes)) == 0;
    if (made) {
      *handle = ++all.last;
      all.all[*handle] = {all.size, bytes, requested->location.id, *requested, 0, false};
      all.size += bytes;
    }
  }
  if (!made) give_back_memory(bytes, requested->location.id);
  return outcome(made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::size_t bytes = 0;
  int device = 0;
  {
    const std::lock_guard lock(pieces_mutex);
    const auto found = pieces().all.find(handle);
    if (found == pieces().all.end() || found->second.released)
      return outcome(CUDA_ERROR_INVALID_VALUE);
    found->second.released = true;
    bytes = drop_if_unused(handle, device);
  }
  if (bytes != 0) give_back_memory(bytes, device);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  int device = 0;
  {
    const std::lock_guard lock(pieces_mutex);
    const auto found = pieces().all.find(handle);
    if (flags != 0 || offset != 0 || found == pieces().all.end() || found->second.released ||
        bytes != found->second.bytes || !reserved(address, bytes) || mapped_in(address, bytes))
      return outcome(CUDA_ERROR_INVALID_VALUE);
    if (::mmap(pointer_of(address), bytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, pieces().file,
               static_cast<off_t>(found->second.offset)) == MAP_FAILED)
      return outcome(CUDA_ERROR_OUT_OF_MEMORY);
    ++found->second.mapped;
    pieces().mapped[address] = {bytes, handle};
    device = found->second.device;
  }
  return outcome(adopt_memory(pointer_of(address), bytes, MemoryKind::device, device, true)
                     ? CUDA_SUCCESS
                     : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                        std::size_t count) {
  if (access == nullptr || count == 0) return outcome(CUDA_ERROR_INVALID_VALUE);
  for (std::size_t i = 0; i < count; ++i)
    if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        !known_device(access[i].location.id))
      return outcome(CUDA_ERROR_INVALID_DEVICE);
  const std::lock_guard lock(pieces_mutex);
  // The whole range must be mapped. Mapped memory is accessible from all devices here.
  for (const CUdeviceptr end = address + bytes; address < end;) {
    const auto found = pieces().mapped.find(address);
    if (found == pieces().mapped.end()) return outcome(CUDA_ERROR_INVALID_VALUE);
    address += found->second.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  std::vector<std::pair<std::size_t, int>> given_back;
  std::vector<CUdeviceptr> unmapped;
  CUresult status = CUDA_SUCCESS;
  {
    const std::lock_guard lock(pieces_mutex);
    const CUdeviceptr end = address + bytes;
    for (CUdeviceptr at = address; at < end;) {
      const auto found = pieces().mapped.find(at);
      if (found == pieces().mapped.end() || found->second.bytes > end - at)
        return outcome(CUDA_ERROR_INVALID_VALUE);
      at += found->second.bytes;
    }
    for (CUdeviceptr at = address; at < end;) {
      const auto found = pieces().mapped.find(at);
      const Pieces::Mapped mapped = found->second;
      if (::mmap(pointer_of(at), mapped.bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        status = outcome(CUDA_ERROR_OPERATING_SYSTEM);
        break;  // The rest of the range stays mapped.
      }
      pieces().mapped.erase(found);
      --pieces().all[mapped.piece].mapped;
      int device = 0;
      if (const std::size_t size = drop_if_unused(mapped.piece, device); size != 0)
        given_back.emplace_back(size, device);
      unmapped.push_back(at);
      at += mapped.bytes;
    }
  }
  for (const CUdeviceptr at : unmapped) disown_memory(pointer_of(at));
  for (const auto& [size, device] : given_back) give_back_memory(size, device);
  return status;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(pieces_mutex);
  const auto found = pieces().all.find(handle);
  if (properties == nullptr || found == pieces().all.end())
    return outcome(CUDA_ERROR_INVALID_VALUE);
  *properties = found->second.properties;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle,
                                      CUmemAllocationHandleType, unsigned long long) {
  return refuse_sharing();
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*,
                                        CUmemAllocationHandleType) {
  return refuse_sharing();
}

}  // extern "C"
