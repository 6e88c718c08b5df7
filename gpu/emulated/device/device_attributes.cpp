#include "gpu/emulated/device/device_attributes.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace optrace::emulated {
namespace {

enum class Is {
  value,
  threads_each,
  blocks_each,
  shared,
  shared_each,
  shared_optin,
  shared_reserved,
  registers_each,
  multiprocessors,
  clock,
  memory_clock,
  bus_width,
  l2,
  persisting_l2,
  major,
  minor,
  pci_bus,
  since_hopper,
  double_ratio,
  ecc
};

struct Attribute {
  int number;
  Is is;
  int value = 0;
};

// Attributes of cudaDeviceAttr; some of 102 to 132 exist only as CUdevice_attribute. Sizes of
// textures and surfaces are from "Technical Specifications per Compute Capability" in the CUDA C++
// Programming Guide.
constexpr Attribute kAttributes[] = {
    {1, Is::value, 1024},         // MaxThreadsPerBlock
    {2, Is::value, 1024},         // MaxBlockDimX
    {3, Is::value, 1024},         // MaxBlockDimY
    {4, Is::value, 64},           // MaxBlockDimZ
    {5, Is::value, 0x7FFFFFFF},   // MaxGridDimX
    {6, Is::value, 65535},        // MaxGridDimY
    {7, Is::value, 65535},        // MaxGridDimZ
    {8, Is::shared},              // MaxSharedMemoryPerBlock
    {9, Is::value, 65536},        // TotalConstantMemory
    {10, Is::value, 32},          // WarpSize
    {11, Is::value, 0x7FFFFFFF},  // MaxPitch
    {12, Is::value, 65536},       // MaxRegistersPerBlock
    {13, Is::clock},
    {14, Is::value, 512},  // TextureAlignment
    {15, Is::value, 1},    // GpuOverlap
    {16, Is::multiprocessors},
    {17, Is::value, 0},  // KernelExecTimeout
    {18, Is::value, 0},  // Integrated
    {19, Is::value, 1},  // CanMapHostMemory
    {20, Is::value, 0},  // ComputeMode: default
    {21, Is::value, 131072},
    {22, Is::value, 131072},
    {23, Is::value, 65536},  // Textures
    {24, Is::value, 16384},
    {25, Is::value, 16384},
    {26, Is::value, 16384},
    {27, Is::value, 32768},
    {28, Is::value, 32768},
    {29, Is::value, 2048},
    {30, Is::value, 512},  // SurfaceAlignment
    {31, Is::value, 1},    // ConcurrentKernels
    {32, Is::ecc},
    {33, Is::pci_bus},
    {34, Is::value, 0},  // PciDeviceId
    {35, Is::value, 0},  // TccDriver
    {36, Is::memory_clock},
    {37, Is::bus_width},
    {38, Is::l2},
    {39, Is::threads_each},
    {40, Is::value, 3},  // AsyncEngineCount
    {41, Is::value, 1},  // UnifiedAddressing
    {42, Is::value, 32768},
    {43, Is::value, 2048},
    {45, Is::value, 32768},
    {46, Is::value, 32768},
    {47, Is::value, 8192},
    {48, Is::value, 8192},
    {49, Is::value, 32768},
    {50, Is::value, 0},   // PciDomainId
    {51, Is::value, 32},  // TexturePitchAlignment
    {52, Is::value, 32768},
    {53, Is::value, 32768},
    {54, Is::value, 2046},
    {55, Is::value, 32768},
    {56, Is::value, 131072},
    {57, Is::value, 65536},
    {58, Is::value, 16384},
    {59, Is::value, 16384},
    {60, Is::value, 16384},
    {61, Is::value, 32768},
    {62, Is::value, 2048},
    {63, Is::value, 32768},
    {64, Is::value, 32768},
    {65, Is::value, 2048},
    {66, Is::value, 32768},
    {67, Is::value, 32768},
    {68, Is::value, 2046},
    {69, Is::value, 268435456},
    {70, Is::value, 131072},
    {71, Is::value, 65000},
    {72, Is::value, 2097120},
    {73, Is::value, 32768},
    {74, Is::value, 32768},
    {75, Is::major},
    {76, Is::minor},
    {77, Is::value, 32768},
    {78, Is::value, 1},  // StreamPrioritiesSupported
    {79, Is::value, 1},  // MemoryPoolSupportedHandleTypes: none, because IPC isn't emulated.
    {80, Is::value, 1},  // LocalL1CacheSupported
    {81, Is::shared_each},
    {82, Is::registers_each},
    {83, Is::value, 1},  // ManagedMemory
    {84, Is::value, 0},  // IsMultiGpuBoard
    {85, Is::value, 0},  // MultiGpuBoardGroupID
    {86, Is::value, 0},  // HostNativeAtomicSupported
    {87, Is::double_ratio},
    {88, Is::value, 0},  // PageableMemoryAccess
    {89, Is::value, 1},  // ConcurrentManagedAccess
    {90, Is::value, 1},  // ComputePreemptionSupported
    {91, Is::value, 1},  // CanUseHostPointerForRegisteredMem
    {92, Is::value, 0},
    {93, Is::value, 0},
    {94, Is::value, 0},
    {95, Is::value, 1},  // CooperativeLaunch
    {96, Is::value, 0},
    {97, Is::shared_optin},
    {98, Is::value, 0},   // CanFlushRemoteWrites
    {99, Is::value, 1},   // HostRegisterSupported
    {100, Is::value, 0},  // PageableMemoryAccessUsesHostPageTables
    {101, Is::value, 0},  // DirectManagedMemAccessFromHost
    {102, Is::value, 1},  // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    {103, Is::value, 1},  // HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    {104, Is::value, 0},
    {105, Is::value, 0},
    {106, Is::blocks_each},
    {107, Is::value, 0},  // GENERIC_COMPRESSION_SUPPORTED
    {108, Is::persisting_l2},
    {109, Is::value, 134213632},  // MaxAccessPolicyWindowSize
    {110, Is::value, 0},          // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
    {111, Is::shared_reserved},
    {112, Is::value, 1},  // SparseCudaArraySupported
    {113, Is::value, 1},  // HostRegisterReadOnlySupported
    {114, Is::value, 1},  // TimelineSemaphoreInteropSupported
    {115, Is::value, 1},  // MemoryPoolsSupported
    {116, Is::value, 0},  // GPUDirectRDMASupported
    {117, Is::value, 0},
    {118, Is::value, 0},
    {119, Is::value, 0},      // MemoryPoolSupportedHandleTypes: none, as IPC isn't emulated.
    {120, Is::since_hopper},  // ClusterLaunch
    {121, Is::value, 0},      // DeferredMappingCudaArraySupported
    {122, Is::value, 1},
    {123, Is::value, 1},  // CAN_USE_64_BIT_STREAM_MEM_OPS, ..._WAIT_VALUE_NOR
    {124, Is::value, 0},
    {125, Is::value, 0},      // IpcEventSupport
    {126, Is::value, 1},      // MemSyncDomainCount
    {127, Is::since_hopper},  // TENSOR_MAP_ACCESS_SUPPORTED
    {128, Is::value, 0},      // HANDLE_TYPE_FABRIC_SUPPORTED
    {129, Is::value, 1},      // UNIFIED_FUNCTION_POINTERS
    {130, Is::value, 0},
    {131, Is::value, -1},
    {132, Is::value, 0},  // MULTICAST_SUPPORTED
    {133, Is::value, 0},
    {134, Is::value, -1},
};

int value_of(const Attribute& attribute, const GpuModel& device, int ordinal) {
  switch (attribute.is) {
    case Is::value:
      return attribute.value;
    case Is::threads_each:
      return device.threads;
    case Is::blocks_each:
      return device.blocks;
    case Is::shared:
      return device.shared_memory_per_block;
    case Is::shared_each:
      return device.shared_memory;
    case Is::shared_optin:
      return device.shared_memory_per_block_optin;
    case Is::shared_reserved:
      return device.reserved_shared_memory;
    case Is::registers_each:
      return device.registers;
    case Is::multiprocessors:
      return device.multiprocessors;
    case Is::clock:
      return device.clock;
    case Is::memory_clock:
      return device.memory_clock;
    case Is::bus_width:
      return device.memory_bus_width;
    case Is::l2:
      return device.l2_cache;
    // The part of the cache that a program may set aside, since sm_80.
    case Is::persisting_l2:
      return device.major >= 8 ? device.l2_cache / 8 * 5 : 0;
    case Is::major:
      return device.major;
    case Is::minor:
      return device.minor;
    case Is::pci_bus:
      return ordinal + 1;
    case Is::since_hopper:
      return device.major >= 9 ? 1 : 0;
    // Ratio of single- to double-precision throughput: about 2 for data-centre GPUs (sm_x0).
    case Is::double_ratio:
      return device.minor == 0 && device.major < 12 ? 2 : device.major <= 7 ? 32 : 64;
    case Is::ecc:
      return std::strstr(device.name, "GeForce") != nullptr ||
                     std::strstr(device.name, "TITAN") != nullptr
                 ? 0
                 : 1;
  }
  return 0;
}

}  // namespace

bool device_attribute(int attribute, int device, int& value) {
  const auto* const found =
      std::find_if(std::begin(kAttributes), std::end(kAttributes),
                   [attribute](const Attribute& known) { return known.number == attribute; });
  if (found == std::end(kAttributes)) return false;
  value = value_of(*found, gpu_model(), device);
  return true;
}

void pci_bus_id(int device, char* text, std::size_t size) {
  std::snprintf(text, size, "0000:%02X:00.0", static_cast<unsigned>(device + 1));
}

void device_uuid(int device, char (&uuid)[16]) {
  char text[sizeof uuid + 1];
  std::snprintf(text, sizeof text, "optrace device%02d", device);
  std::memcpy(uuid, text, sizeof uuid);
}

}  // namespace optrace::emulated
