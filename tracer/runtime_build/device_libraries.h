#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tracer/device_generator/device_families.h"
#include "tracer/runtime_build/build_steps.h"

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

/// Returns the program that generates functions of CUDA's libraries (tracer/device_generator/).
std::filesystem::path device_generator();

/// Returns the step that generates `source` with the functions that torch imports from `library`,
/// and writes their list into `folder`. `kind` is the generator's first argument. Throws Error.
BuildStep generator_step(const std::string& kind, const DeviceLibrary& library,
                         const std::filesystem::path& folder, const std::filesystem::path& source,
                         const std::vector<std::string>& includes);

}  // namespace optrace
