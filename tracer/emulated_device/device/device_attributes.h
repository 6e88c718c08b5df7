#pragma once

#include <cstddef>

#include "tracer/emulated_device/device/device.h"

namespace optrace::emulated {

/// A device's attribute by its number, in which cudaDeviceAttr and CUdevice_attribute agree; false
/// for one that isn't known.
OPTRACE_DEVICE_EXPORT bool device_attribute(int attribute, int device, int& value);

/// "0000:01:00.0" for the first one, at least 13 bytes.
OPTRACE_DEVICE_EXPORT void pci_bus_id(int device, char* text, std::size_t size);

/// The 16 bytes that tell it from other devices.
OPTRACE_DEVICE_EXPORT void device_uuid(int device, char (&uuid)[16]);

}  // namespace optrace::emulated
