#include "tracer/runtime_build/emulated_device_build.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "platform/cache_folders.h"
#include "platform/error.h"
#include "platform/installation.h"
#include "platform/torch_version.h"
#include "platform/whole_file.h"
#include "tracer/device_generator/device_families.h"
#include "tracer/runtime_build/cuda_headers.h"
#include "tracer/runtime_build/device_libraries.h"

namespace optrace {
namespace {

constexpr std::string_view kDeviceLibrary = "liboptrace_device.so";

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
  EmulatedDevice(const std::filesystem::path& torch_folder, std::filesystem::path sources)
      : torch_(torch_folder), sources_(std::move(sources)), headers_(torch_folder) {}

  /// Returns the headers that the key covers.
  std::vector<std::filesystem::path> headers() const {
    std::vector<const DeviceFamily*> families;
    for (const DeviceFamily& family : device_families()) families.push_back(&family);
    return headers_.files_of(families);
  }

  std::string obstacle(const std::string& cuda) {
    try {
      libraries_ = device_libraries(files_of_torch(torch_));
    } catch (const Error& error) {
      return fmt::format("{}. {}", error.what(), error.remedy());
    }
    return missing_headers(cuda);
  }

  BuildContents contents(const std::filesystem::path& folder) const {
    BuildContents contents{.includes = headers_.arguments(used_), .linked_with = {"-ldl"}};
    write_file(folder / "device.script", kDeviceExports);
    contents.libraries.push_back(
        {.name = std::string(kDeviceLibrary),
         .sources = sources("device", "device"),
         .compile_flags = {"-fvisibility=hidden"},
         .link_flags = link_flags(std::string(kDeviceLibrary), folder / "device.script")});
    for (const DeviceLibrary& library : libraries_) {
      const std::string name(library.family->name);
      const auto script = folder / (library.soname + ".script");
      write_file(script, version_script(library));
      const auto generated = folder / (name + "-generated.cpp");
      contents.generators.push_back(
          generator_step("define", library, folder, generated, contents.includes));
      LibraryToBuild built{.name = library.soname,
                           .sources = sources("libraries", name),
                           .link_flags = link_flags(library.soname, script),
                           .level = level_of(name)};
      built.sources.push_back(generated);
      contents.libraries.push_back(std::move(built));
      // A linker looks for this name: Triton links its kernel launchers with -lcuda.
      if (library.soname == "libcuda.so.1") contents.copies = {{"libcuda.so", library.soname}};
    }
    return contents;
  }

 private:
  /// Returns a message if headers are missing or belong to another CUDA version, else an empty
  /// string. Adds the other headers' folders to used_.
  std::string missing_headers(const std::string& cuda) {
    std::vector<const DeviceFamily*> missing;
    for (const DeviceLibrary& library : libraries_) {
      const DeviceFamily& family = *library.family;
      if (const auto folder = headers_.folder_of(family.headers.front())) {
        used_.insert(*folder);
      } else if (!family.wheel.empty() && (!library.functions.empty() || !family.always.empty() ||
                                           !sources("libraries", family.name).empty())) {
        missing.push_back(&family);
      }
    }
    if (!missing.empty()) {
      return fmt::format("Compiling it needs the headers of CUDA's libraries, and {}",
                         lacking_headers(missing, torch_, cuda));
    }
    const DeviceFamily& runtime = *device_family("cudart");
    const auto folder = headers_.folder_of(runtime.headers.front());
    if (!folder) return {};
    const auto major = major_version_of(*folder / runtime.headers.front());
    if (major && std::to_string(*major) != cuda.substr(0, cuda.find('.'))) {
      return fmt::format(
          "This torch is built with CUDA {}, but the headers in {} are CUDA {}'s: pip install '{}'",
          cuda, folder->string(), *major, requirement(torch_, runtime, cuda));
    }
    return {};
  }

  /// Returns NAME.cpp and NAME_*.cpp in a folder.
  std::vector<std::filesystem::path> sources(std::string_view folder, std::string_view name) const {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(sources_ / "tracer/emulated_device" / folder, error)) {
      const std::string stem = entry.path().stem().string();
      if (entry.path().extension() == ".cpp" &&
          (stem == name || stem.starts_with(fmt::format("{}_", name))))
        found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
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
  std::filesystem::path sources_;
  HeaderFolders headers_;
  std::vector<DeviceLibrary> libraries_;
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

std::filesystem::path sources_of_emulated_device() {
  return data_folder() / "emulated_device";
}

}  // namespace

std::string obstacle_to_emulated_device(const std::filesystem::path& torch_folder) {
  const auto version = read_torch_version(torch_folder);
  if (!version || !version->cuda) return why_no_cuda(version, torch_folder);
  return EmulatedDevice(torch_folder, sources_of_emulated_device()).obstacle(*version->cuda);
}

BuiltLibraries find_or_build_emulated_device(const std::filesystem::path& torch_folder,
                                             const BuildProgress& progress) {
  BuildDescription build{
      .lacks = "There is no emulated CUDA device for this torch.",
      .building = "Compiling it",
      .cache = cache_folders::kEmulatedDevices,
      .torch_folder = torch_folder,
      .sources = sources_of_emulated_device(),
      .key_files = files_of_torch(torch_folder),
      .standards = {"-std=c++17"},
      // Deprecated functions must be defined like all others.
      .compile_flags = {"-O1", "-fPIC", "-DNDEBUG", "-Wno-deprecated-declarations"},
      .link_flags = {"-shared",
                     // Their functions are never shown as frames.
                     "-Wl,--strip-all", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-z,defs",
                     "-Wl,--as-needed", "-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined-version",
                     "-pthread"},
  };
  const auto version = read_torch_version(torch_folder);
  if (!version || !version->cuda)
    return without_libraries(build, why_no_cuda(version, torch_folder));
  EmulatedDevice device(torch_folder, build.sources);
  build.progress =
      fmt::format("compiling the emulated CUDA device for CUDA {}, once", *version->cuda);
  build.key = {version->text};
  build.key_files.push_back(device_generator());
  for (auto& header : device.headers()) build.key_files.push_back(std::move(header));
  build.obstacle = [&] { return device.obstacle(*version->cuda); };
  build.contents = [&](const auto& folder) { return device.contents(folder); };
  return find_or_build(build, progress);
}

}  // namespace optrace
