#pragma once

#include <cstdint>

#include <sys/mman.h>

namespace optrace::agent {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 2ULL << 20;

constexpr std::uint64_t page_floor(std::uint64_t address) {
  return address & ~(kPage - 1);
}
constexpr std::uint64_t page_ceiling(std::uint64_t address) {
  return page_floor(address + kPage - 1);
}

/// Array in memory obtained directly from the kernel, because the agent must not touch the heap of
/// the traced process. There is no destructor: other threads may outlive any scope that could own
/// the memory.
template <typename T>
struct PageArray {
  T* data = nullptr;
  std::uint64_t count = 0;

  /// Returns false if memory can't be allocated. The memory is filled with zeros.
  bool allocate(std::uint64_t size) {
    void* memory = mmap(nullptr, bytes_for(size), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) return false;
    data = static_cast<T*>(memory);
    count = size;
    return true;
  }

  void release() {
    if (data != nullptr) munmap(data, bytes_for(count));
    data = nullptr;
    count = 0;
  }

  T& operator[](std::uint64_t index) const { return data[index]; }

 private:
  static std::uint64_t bytes_for(std::uint64_t items) {
    return page_ceiling((items == 0 ? 1 : items) * sizeof(T));
  }
};

}  // namespace optrace::agent
