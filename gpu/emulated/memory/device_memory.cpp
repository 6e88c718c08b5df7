// Device memory is host memory, reserved but not committed until it is accessed.

#include "gpu/emulated/memory/device_memory.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/memory/device_contents.h"

namespace optrace::emulated {
namespace {

constexpr std::size_t kPage = 4096;
// Approximate memory that a context uses on a device before a program allocates any.
constexpr std::uint64_t kContextMemory = 512ULL << 20;

std::mutex memory_mutex;
const HeldAcrossFork<memory_mutex> memory_held;

struct Mapping {
  Allocation allocation;
  /// True if to be unmapped here: neither the program's own memory nor a part of a reservation.
  bool owned;
  bool shared;  ///< True if mapped from a file in memory.
};

/// Mappings by their first address.
std::map<std::uintptr_t, Mapping>& mappings() {
  static auto* const mappings = new std::map<std::uintptr_t, Mapping>;
  return *mappings;
}

std::array<std::uint64_t, kMaxDevices> bytes_in_use{};

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPage - 1) & ~(kPage - 1);
}

/// Returns the mapping that contains an address. Requires memory_mutex to be locked.
const Mapping* mapping_at(std::uintptr_t address) {
  auto next = mappings().upper_bound(address);
  if (next == mappings().begin()) return nullptr;
  --next;
  return address - next->first < next->second.allocation.bytes ? &next->second : nullptr;
}

bool take(std::uint64_t bytes, int device) {
  const std::lock_guard lock(memory_mutex);
  std::uint64_t& sum = bytes_in_use[static_cast<std::size_t>(device)];
  if (bytes > available_memory() || sum > available_memory() - bytes) return false;
  sum += bytes;
  return true;
}

void give_back(std::uint64_t bytes, int device) {
  const std::lock_guard lock(memory_mutex);
  bytes_in_use[static_cast<std::size_t>(device)] -= bytes;
}

}  // namespace

std::uint64_t available_memory() {
  return gpu_model().memory - kContextMemory;
}

bool take_memory(std::uint64_t bytes, int device) {
  return known_device(device) && take(bytes, device);
}

void give_back_memory(std::uint64_t bytes, int device) {
  give_back(bytes, device);
}

void* allocate(std::size_t bytes, MemoryKind kind, int device) {
  const std::size_t size = whole_pages(bytes);
  if (bytes == 0 || size < bytes || !known_device(device)) return nullptr;
  const bool counts = kind != MemoryKind::pinned;
  if (counts && !may_be_given_out(size)) return nullptr;
  if (counts && !take(size, device)) return nullptr;
  void* const pointer = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pointer == MAP_FAILED) {
    if (counts) give_back(size, device);
    return nullptr;
  }
  const std::lock_guard lock(memory_mutex);
  mappings()[address_of(pointer)] = {{pointer, bytes, kind, device}, true, false};
  return pointer;
}

bool release(void* pointer) {
  Mapping mapping{};
  {
    const std::lock_guard lock(memory_mutex);
    const auto found = mappings().find(address_of(pointer));
    if (found == mappings().end() || !found->second.owned) return false;
    mapping = found->second;
    mappings().erase(found);
    if (mapping.allocation.kind != MemoryKind::pinned)
      bytes_in_use[static_cast<std::size_t>(mapping.allocation.device)] -=
          whole_pages(mapping.allocation.bytes);
  }
  drop_contents(pointer, whole_pages(mapping.allocation.bytes));
  ::munmap(pointer, whole_pages(mapping.allocation.bytes));
  return true;
}

bool find_allocation(const void* pointer, Allocation& found) {
  const std::lock_guard lock(memory_mutex);
  const Mapping* const mapping = mapping_at(address_of(pointer));
  if (mapping == nullptr) return false;
  found = mapping->allocation;
  return true;
}

std::uint64_t used_memory(int device) {
  if (!known_device(device)) return 0;
  const std::lock_guard lock(memory_mutex);
  return bytes_in_use[static_cast<std::size_t>(device)];
}

bool adopt_memory(void* pointer, std::size_t bytes, MemoryKind kind, int device, bool shared) {
  const std::uintptr_t first = address_of(pointer);
  if (bytes == 0 || first + bytes < first) return false;
  const std::lock_guard lock(memory_mutex);
  const auto next = mappings().lower_bound(first);
  if (mapping_at(first) != nullptr || (next != mappings().end() && next->first < first + bytes))
    return false;
  mappings()[first] = {{pointer, bytes, kind, device}, false, shared};
  return true;
}

bool disown_memory(void* pointer) {
  std::size_t bytes = 0;
  {
    const std::lock_guard lock(memory_mutex);
    const auto found = mappings().find(address_of(pointer));
    if (found == mappings().end() || found->second.owned) return false;
    bytes = found->second.allocation.bytes;
    mappings().erase(found);
  }
  drop_contents(pointer, bytes);
  return true;
}

void fill_memory(void* pointer, int value, std::size_t bytes) {
  const std::uintptr_t first = address_of(pointer);
  const std::uintptr_t begin = whole_pages(first);
  const std::uintptr_t end = (first + bytes) & ~(kPage - 1);
  Mapping mapping{};
  bool known = false;
  {
    const std::lock_guard lock(memory_mutex);
    const Mapping* const found = mapping_at(first);
    known = found != nullptr && found->allocation.kind == MemoryKind::device;
    if (known) mapping = *found;
  }
  // Returning the pages of a large range to the system makes them zeros without using memory.
  constexpr std::size_t kLarge = 1 << 20;
  if (known && value == 0 && bytes >= kLarge && begin < end &&
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      ::madvise(reinterpret_cast<void*>(begin), end - begin,
                mapping.shared ? MADV_REMOVE : MADV_DONTNEED) == 0) {
    std::memset(pointer, 0, begin - first);
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    std::memset(reinterpret_cast<void*>(end), 0, first + bytes - end);
    return;
  }
  std::memset(pointer, value, bytes);
}

}  // namespace optrace::emulated
