#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tracer/device_generator/device_families.h"

namespace optrace {

/// A CUDA library that is to be emulated for a torch.
struct DeviceLibrary {
  const DeviceFamily* family = nullptr;
  std::string soname;  ///< "libcublas.so.12"
  /// The functions that torch's libraries import from it, by symbol version; "": of none.
  std::map<std::string, std::set<std::string>> functions;
};

/// The libraries of torch in `torch_folder` (site-packages/torch): what it brings itself.
std::vector<std::filesystem::path> files_of_torch(const std::filesystem::path& torch_folder);

/// The CUDA libraries that `libraries` need, and those that programs open by name (the driver's),
/// each once, sorted by SONAME. The real ones need not be there. Throws Error(usage) for a library
/// that can't be read.
std::vector<DeviceLibrary> device_libraries(const std::vector<std::filesystem::path>& libraries);

/// The linker's version script of such a library: it gives its functions the versions that torch
/// asks for, and hides everything else.
std::string version_script(const DeviceLibrary& library);

}  // namespace optrace
