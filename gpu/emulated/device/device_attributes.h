#pragma once

#include <cstddef>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {

/// Finds a device's attribute by its number, which is the same in cudaDeviceAttr and
/// CUdevice_attribute. Returns false for an unknown one.
OPTRACE_DEVICE_EXPORT bool device_attribute(int attribute, int device, int& value);

/// Returns true for the ordinal of an emulated device.
inline bool known_device(int ordinal) {
  return ordinal >= 0 && ordinal < device_count();
}

/// Stores "0000:01:00.0" for the first device. Needs at least 13 bytes.
OPTRACE_DEVICE_EXPORT void pci_bus_id(int device, char* text, std::size_t size);

/// Stores the 16 bytes that identify the device.
OPTRACE_DEVICE_EXPORT void device_uuid(int device, char (&uuid)[16]);

}  // namespace optrace::emulated
