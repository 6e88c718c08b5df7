#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tracer/device_generator/device_families.h"

namespace optrace {

/// A CUDA library to emulate for a torch.
struct DeviceLibrary {
  const DeviceFamily* family = nullptr;
  std::string soname;  ///< "libcublas.so.12"
  /// The functions that torch's libraries import from it, by symbol version; "" for none.
  std::map<std::string, std::set<std::string>> functions;
};

/// Returns the libraries in `torch_folder` (site-packages/torch) that belong to torch itself.
std::vector<std::filesystem::path> files_of_torch(const std::filesystem::path& torch_folder);

/// Returns the CUDA libraries that `libraries` need, and those that programs open by name (the
/// driver's), each once, sorted by SONAME. The real ones need not exist. Throws Error(usage) for a
/// library that can't be read.
std::vector<DeviceLibrary> device_libraries(const std::vector<std::filesystem::path>& libraries);

/// Returns the linker's version script for such a library. It gives the functions the versions that
/// torch requires, and hides everything else.
std::string version_script(const DeviceLibrary& library);

}  // namespace optrace
