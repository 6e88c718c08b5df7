// Stand-in for NVIDIA's CUTLASS, which no wheel contains: the types in the names of PyTorch's
// attention kernels, so that the functions that choose and launch a kernel are found. Never
// compiled to code.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#define CUTLASS_DEVICE inline
#define CUTLASS_HOST_DEVICE inline
#define CUTLASS_PRAGMA_UNROLL
#define CUTLASS_PRAGMA_NO_UNROLL

namespace cutlass {

struct half_t {
  std::uint16_t storage;
};
struct bfloat16_t {
  std::uint16_t storage;
};
struct tfloat32_t {
  std::uint32_t storage;
};

template <typename T>
struct sizeof_bits {
  static constexpr int value = static_cast<int>(sizeof(T) * 8);
};

namespace platform {
using std::is_same;
using std::numeric_limits;
}  // namespace platform

namespace arch {
struct Sm50 {
  static constexpr int kMinComputeCapability = 50;
};
struct Sm70 {
  static constexpr int kMinComputeCapability = 70;
};
struct Sm75 {
  static constexpr int kMinComputeCapability = 75;
};
struct Sm80 {
  static constexpr int kMinComputeCapability = 80;
};
}  // namespace arch

}  // namespace cutlass
