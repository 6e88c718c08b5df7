// The part of NVML used by torch.cuda and its allocator. PyTorch's wheels contain no header for it,
// so the prototypes are declared here, from NVIDIA's public documentation. They never change,
// because a changed function gets a new name.

#include <cstdio>
#include <cstring>
#include <string>

#include <cuda.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/memory/device_memory.h"

namespace optrace::emulated {
namespace {

// Values of nvmlReturn_t.
enum Result : int {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
};

struct Device {
  int ordinal;
};
constexpr int kMaxDevices = 64;

Device* device_at(unsigned ordinal) {
  static Device devices[kMaxDevices];
  if (ordinal >= static_cast<unsigned>(device_count())) return nullptr;
  devices[ordinal].ordinal = static_cast<int>(ordinal);
  return &devices[ordinal];
}

/// Returns -1 for an invalid device.
int ordinal_of(const Device* device) {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal)
    if (device == device_at(static_cast<unsigned>(ordinal))) return ordinal;
  return -1;
}

std::string uuid_of(int ordinal) {
  char bytes[16];
  device_uuid(ordinal, bytes);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex;
  }
  return text;
}

Result give(const std::string& text, char* to, unsigned size) {
  if (to == nullptr) return kInvalidArgument;
  if (text.size() >= size) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

int nvmlInit_v2(void) {
  return kSuccess;
}
int nvmlInit(void) {
  return kSuccess;
}
int nvmlInitWithFlags(unsigned) {
  return kSuccess;
}
int nvmlShutdown(void) {
  return kSuccess;
}

const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  // No driver has this version; it identifies the emulation.
  return give("0.0 (optrace)", version, size);
}

int nvmlSystemGetNVMLVersion(char* version, unsigned size) {
  return give("0.0 (optrace)", version, size);
}

int nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return kInvalidArgument;
  *version = reported_version("cuda", CUDA_VERSION);
  return kSuccess;
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return nvmlSystemGetCudaDriverVersion(version);
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  if (count == nullptr) return kInvalidArgument;
  *count = static_cast<unsigned>(device_count());
  return kSuccess;
}

int nvmlDeviceGetCount(unsigned* count) {
  return nvmlDeviceGetCount_v2(count);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  if (device == nullptr) return kInvalidArgument;
  *device = device_at(index);
  return *device == nullptr ? kInvalidArgument : kSuccess;
}

int nvmlDeviceGetHandleByIndex(unsigned index, Device** device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device** device) {
  if (bus_id == nullptr || device == nullptr) return kInvalidArgument;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (std::sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) return kInvalidArgument;
  *device = domain == 0 && slot == 0 && bus > 0 ? device_at(bus - 1) : nullptr;
  return *device == nullptr ? kNotFound : kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, Device** device) {
  if (uuid == nullptr || device == nullptr) return kInvalidArgument;
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    if (uuid_of(ordinal) != uuid) continue;
    *device = device_at(static_cast<unsigned>(ordinal));
    return kSuccess;
  }
  return kNotFound;
}

int nvmlDeviceGetIndex(Device* device, unsigned* index) {
  const int ordinal = ordinal_of(device);
  if (ordinal < 0 || index == nullptr) return kInvalidArgument;
  *index = static_cast<unsigned>(ordinal);
  return kSuccess;
}

int nvmlDeviceGetName(Device* device, char* name, unsigned size) {
  return ordinal_of(device) < 0 ? kInvalidArgument : give(gpu_model().name, name, size);
}

int nvmlDeviceGetUUID(Device* device, char* uuid, unsigned size) {
  const int ordinal = ordinal_of(device);
  return ordinal < 0 ? kInvalidArgument : give(uuid_of(ordinal), uuid, size);
}

int nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* info) {
  const int ordinal = ordinal_of(device);
  if (ordinal < 0 || info == nullptr) return kInvalidArgument;
  *info = {};
  info->bus = static_cast<unsigned>(ordinal + 1);
  pci_bus_id(ordinal, info->bus_id_legacy, sizeof info->bus_id_legacy);
  std::snprintf(info->bus_id, sizeof info->bus_id, "0000%s", info->bus_id_legacy);
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) {
  const int ordinal = ordinal_of(device);
  if (ordinal < 0 || memory == nullptr) return kInvalidArgument;
  memory->total = gpu_model().memory;
  memory->free = available_memory() - used_memory(ordinal);
  memory->used = memory->total - memory->free;
  return kSuccess;
}

int nvmlDeviceGetCudaComputeCapability(Device* device, int* major, int* minor) {
  if (ordinal_of(device) < 0 || major == nullptr || minor == nullptr) return kInvalidArgument;
  *major = gpu_model().major;
  *minor = gpu_model().minor;
  return kSuccess;
}

/// The emulated device executes nothing, so it is never busy.
int nvmlDeviceGetUtilizationRates(Device* device, Utilization* utilization) {
  if (ordinal_of(device) < 0 || utilization == nullptr) return kInvalidArgument;
  *utilization = {0, 0};
  return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses(Device* device, unsigned* count, void*) {
  if (ordinal_of(device) < 0 || count == nullptr) return kInvalidArgument;
  *count = 0;
  return kSuccess;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned* count, void* infos) {
  return nvmlDeviceGetComputeRunningProcesses(device, count, infos);
}

int nvmlDeviceGetP2PStatus(Device* one, Device* other, int, int* status) {
  if (ordinal_of(one) < 0 || ordinal_of(other) < 0 || status == nullptr) return kInvalidArgument;
  *status = 0;  // NVML_P2P_STATUS_OK
  return kSuccess;
}

// Values that only hardware has. A GPU model without them returns the same error.
int nvmlDeviceGetTemperature(Device*, int, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetPowerUsage(Device*, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetClockInfo(Device*, int, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(Device*, unsigned, int*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device*, unsigned, PciInfo*) {
  return kNotSupported;
}
int nvmlDeviceGetNvLinkState(Device*, unsigned, int*) {
  return kNotSupported;
}
int nvmlDeviceGetGpuFabricInfoV(Device*, void*) {
  return kNotSupported;
}
int nvmlDeviceGetMigMode(Device*, unsigned*, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetNumaNodeId(Device*, unsigned*) {
  return kNotSupported;
}
int nvmlDeviceGetVirtualizationMode(Device*, int*) {
  return kNotSupported;
}

}  // extern "C"
