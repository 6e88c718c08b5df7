#include "gpu/build/emulated_device_build.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "gpu/build/cuda_headers.h"
#include "gpu/build/device_libraries.h"
#include "gpu/libraries/device_families.h"
#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"
#include "pytorch/installed/torch_version.h"

namespace optrace {
namespace {

constexpr std::string_view kDeviceLibrary = "liboptrace_device.so";

// Folders of the sources, below gpu/: those of the device's library, and those of the others, with
// what describes their calls.
constexpr std::array<std::string_view, 4> kDeviceRooms = {"emulated/device", "emulated/memory",
                                                          "emulated/streams", "emulated/kernels"};
constexpr std::array<std::string_view, 2> kLibraryRooms = {"arguments", "emulated/libraries"};

// The symbols that the device's library exports to the others. None of the C++ library's, which
// would replace the process's own.
constexpr std::string_view kDeviceExports =
    "{\n  global:\n    optrace_*;\n    _ZN7optrace*;\n    _ZNK7optrace*;\n    _ZT[ISV]N7optrace*;\n"
    // Replaces libc10's function: device_contents.cpp.
    "    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;\n"
    "  local: *;\n};\n";

/// Returns the major version of the CUDA runtime's headers: 12 for CUDART_VERSION 12040.
std::optional<int> major_version_of(const std::filesystem::path& runtime_header) {
  const std::string text = read_file(runtime_header).value_or("");
  constexpr std::string_view kMacro = "#define CUDART_VERSION";
  const std::size_t at = text.find(kMacro);
  if (at == std::string::npos) return std::nullopt;
  return std::atoi(text.c_str() + at + kMacro.size()) / 1000;
}

/// The parts of the build that depend on the libraries that torch needs.
class EmulatedDevice {
 public:
  EmulatedDevice(const std::vector<std::filesystem::path>& torches, std::string cuda,
                 std::filesystem::path sources)
      : torch_(torches.front()),
        cuda_(std::move(cuda)),
        sources_(std::move(sources)),
        headers_(torches),
        libraries_(torches) {}

  /// Returns the headers that the key covers.
  std::vector<std::filesystem::path> headers() const {
    std::vector<const DeviceFamily*> families;
    for (const DeviceFamily& family : device_families()) families.push_back(&family);
    return headers_.files_of(families);
  }

  std::string misfit(const Prebuilt& prebuilt) {
    return libraries_.misfit(prebuilt, cuda_, [](const DeviceLibrary&) { return true; });
  }

  /// Returns true for the device and for what takes the place of a library that torch needs.
  bool wants(const std::string& name) {
    return name == kDeviceLibrary ||
           std::ranges::count(libraries_.all(), name, &DeviceLibrary::soname) != 0;
  }

  std::string obstacle() {
    try {
      return missing_headers();
    } catch (const Error& error) {
      return fmt::format("{}. {}", error.what(), error.remedy());
    }
  }

  BuildContents contents(const std::filesystem::path& folder) {
    BuildContents contents{.includes = headers_.arguments(used_), .linked_with = {"-ldl"}};
    write_file(folder / "device.script", kDeviceExports);
    contents.libraries.push_back(
        {.name = std::string(kDeviceLibrary),
         .sources = sources(kDeviceRooms),
         .compile_flags = {"-fvisibility=hidden"},
         .link_flags = link_flags(std::string(kDeviceLibrary), folder / "device.script")});
    for (const DeviceLibrary& library : libraries_.all()) {
      const std::string name(library.family->name);
      const auto script = folder / (library.soname + ".script");
      write_file(script, version_script(library));
      const auto generated = folder / (name + "-generated.cpp");
      contents.generators.push_back(
          generator_step("define", library, folder, generated, contents.includes));
      LibraryToBuild built{.name = library.soname,
                           .sources = sources(kLibraryRooms, name),
                           .link_flags = link_flags(library.soname, script),
                           .level = level_of(name)};
      built.sources.push_back(generated);
      contents.libraries.push_back(std::move(built));
      // A linker looks for this name: Triton links its kernel launchers with -lcuda. The file tells
      // it to take the other one.
      if (library.soname == "libcuda.so.1")
        contents.texts = {{"libcuda.so", fmt::format("INPUT({})\n", library.soname)}};
    }
    return contents;
  }

 private:
  /// Returns a message if headers are missing or belong to another CUDA version, else an empty
  /// string. Adds the other headers' folders to used_.
  std::string missing_headers() {
    std::vector<const DeviceFamily*> missing;
    for (const DeviceLibrary& library : libraries_.all()) {
      const DeviceFamily& family = *library.family;
      if (const auto folder = headers_.folder_of(family.headers.front())) {
        used_.insert(*folder);
      } else if (!family.wheel.empty() && (!library.functions.empty() || !family.always.empty() ||
                                           !sources(kLibraryRooms, family.name).empty())) {
        missing.push_back(&family);
      }
    }
    if (!missing.empty()) {
      return fmt::format("Compiling it needs the headers of CUDA's libraries, and {}",
                         lacking_headers(missing, torch_, cuda_));
    }
    const DeviceFamily& runtime = *device_family("cudart");
    const auto folder = headers_.folder_of(runtime.headers.front());
    if (!folder) return {};
    const auto major = major_version_of(*folder / runtime.headers.front());
    if (major && std::to_string(*major) != cuda_major(cuda_)) {
      return fmt::format(
          "This torch is built with CUDA {}, but the headers in {} are CUDA {}'s: pip install '{}'",
          cuda_, folder->string(), *major, requirement(torch_, runtime, cuda_));
    }
    return {};
  }

  /// Returns the sources in some folders, with a name only NAME.cpp and NAME_*.cpp.
  std::vector<std::filesystem::path> sources(std::span<const std::string_view> folders,
                                             std::string_view name = {}) const {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (const std::string_view folder : folders) {
      for (const auto& entry :
           std::filesystem::recursive_directory_iterator(sources_ / "gpu" / folder, error)) {
        const std::string stem = entry.path().stem().string();
        if (entry.path().extension() == ".cpp" &&
            (name.empty() || stem == name || stem.starts_with(fmt::format("{}_", name))))
          found.push_back(entry.path());
      }
    }
    std::ranges::sort(found);
    return found;
  }

  /// The order of dependencies: the device, the driver, the runtime, and then their users.
  static std::size_t level_of(std::string_view family) {
    return family == "cuda" ? 1 : family == "cudart" ? 2 : 3;
  }

  static std::vector<std::string> link_flags(const std::string& soname,
                                             const std::filesystem::path& script) {
    return {fmt::format("-Wl,-soname,{}", soname),
            fmt::format("-Wl,--version-script,{}", script.string())};
  }

  std::filesystem::path torch_;
  std::string cuda_;
  std::filesystem::path sources_;
  HeaderFolders headers_;
  LibrariesOfTorch libraries_;
  std::set<std::filesystem::path> used_;  ///< Folders that contain the families' headers.
};

/// Returns why there is nothing to emulate for a torch of this version, which has no CUDA.
std::string why_no_cuda(const std::optional<TorchVersion>& version,
                        const std::filesystem::path& torch_folder) {
  if (!version)
    return fmt::format("{} is not a torch: it has no version.py.", torch_folder.string());
  return fmt::format(
      "torch {} in {} is built without CUDA: install a release wheel with CUDA (on Linux: `pip "
      "install torch`).",
      version->version.value_or("of no version"), torch_folder.string());
}

}  // namespace

BuildDescription emulated_device_description(const std::vector<std::filesystem::path>& torches) {
  const std::filesystem::path& torch = torches.front();
  BuildDescription build{
      .lacks = "There is no emulated CUDA device for this torch.",
      .building = "Compiling it",
      .cache = cache_folders::kEmulatedDevices,
      .torch_folder = torch,
      .sources = data_folder() / "emulated_device",
      .generator = device_generator_source(),
      .key_files = files_of_torch(torch),
      .standards = {"-std=c++17"},
      // Deprecated functions must be defined like all others.
      .compile_flags = {"-O1", "-fPIC", "-DNDEBUG", "-Wno-deprecated-declarations"},
      .link_flags = {"-shared",
                     // Their functions are never shown as frames.
                     "-Wl,--strip-all", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,defs",
                     "-Wl,--as-needed", "-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined-version",
                     "-pthread"},
  };
  const auto version = read_torch_version(torch);
  if (!version || !version->cuda) {
    build.obstacle = [version, torch] { return why_no_cuda(version, torch); };
    return build;
  }
  build.progress =
      fmt::format("compiling the emulated CUDA device for CUDA {}, once", *version->cuda);
  build.key = {version->text};
  const auto device = std::make_shared<EmulatedDevice>(torches, *version->cuda, build.sources);
  build.key_files.push_back(device_generator());
  for (auto& header : device->headers()) build.key_files.push_back(std::move(header));
  build.misfit = [device](const Prebuilt& prebuilt) { return device->misfit(prebuilt); };
  build.is_needed = [device](const std::string& library) { return device->wants(library); };
  build.obstacle = [device] { return device->obstacle(); };
  build.contents = [device](const auto& folder) { return device->contents(folder); };
  return build;
}

BuiltLibraries find_or_build_emulated_device(const std::filesystem::path& torch_folder,
                                             const BuildProgress& progress) {
  return find_or_build(emulated_device_description({torch_folder}), progress);
}

}  // namespace optrace
