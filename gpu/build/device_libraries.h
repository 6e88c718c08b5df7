#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/libraries/device_families.h"
#include "target/build/build_steps.h"
#include "target/build/prebuilt.h"

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

/// The CUDA libraries that some torches need, all together, which are read when they are asked for.
class LibrariesOfTorch {
 public:
  /// `torches` are folders site-packages/torch.
  explicit LibrariesOfTorch(std::vector<std::filesystem::path> torches)
      : torches_(std::move(torches)) {}

  /// Returns device_libraries(). Throws like it.
  const std::vector<DeviceLibrary>& all();

  /// Returns why prebuilt libraries can't serve these torches, as the predicate of a sentence: they
  /// are for another major version of CUDA than `cuda`, or lack a function of the libraries that
  /// `concerns` accepts. Empty if they can.
  std::string misfit(const Prebuilt& prebuilt, std::string_view cuda,
                     const std::function<bool(const DeviceLibrary&)>& concerns);

 private:
  std::vector<std::filesystem::path> torches_;
  std::optional<std::vector<DeviceLibrary>> libraries_;
};

/// Returns "12" for "12.4".
std::string_view cuda_major(std::string_view cuda);

/// Returns the linker's version script for such a library. It gives the functions the versions that
/// torch requires, and hides everything else.
std::string version_script(const DeviceLibrary& library);

/// Returns the program that generates functions of CUDA's libraries (gpu/generator/).
std::filesystem::path device_generator();

/// Identifies the source of that program.
std::string device_generator_source();

/// Returns the step that generates `source` with the functions that torch imports from `library`,
/// and writes their list into `folder`. `kind` is the generator's first argument. Throws Error.
BuildStep generator_step(const std::string& kind, const DeviceLibrary& library,
                         const std::filesystem::path& folder, const std::filesystem::path& source,
                         const std::vector<std::string>& includes);

}  // namespace optrace
