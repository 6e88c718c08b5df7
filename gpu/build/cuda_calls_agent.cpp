#include "gpu/build/cuda_calls_agent.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "gpu/build/cuda_headers.h"
#include "gpu/build/device_libraries.h"
#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/installation.h"
#include "pytorch/installed/torch_version.h"

namespace optrace {
namespace {

// The libraries whose calls are recorded. CUPTI reports those of the driver and the runtime.
constexpr std::array kFamilies = {"cublas", "cublaslt", "cudnn",    "cufft",
                                  "curand", "cusolver", "cusparse", "nccl"};

// The sources that are written by hand.
constexpr std::array kHandWritten = {
    "gpu/recorder/cuda_calls.cpp",        "gpu/recorder/cublaslt_calls.cpp",
    "gpu/recorder/cudnn_graph_calls.cpp", "gpu/arguments/cublaslt_product.cpp",
    "gpu/arguments/cudnn_graph.cpp",      "gpu/emulated/streams/device_records.cpp",
};

/// The parts of the build that depend on the functions that torch imports.
class CudaCalls {
 public:
  CudaCalls(const std::vector<std::filesystem::path>& torches, std::string cuda,
            std::filesystem::path sources)
      : torch_(torches.front()),
        cuda_(std::move(cuda)),
        sources_(std::move(sources)),
        headers_(torches),
        all_(torches) {}

  /// Returns the headers that the key covers.
  std::vector<std::filesystem::path> headers() const { return headers_.files_of(families()); }

  std::string misfit(const Prebuilt& prebuilt) {
    return all_.misfit(prebuilt, cuda_, has_recorded_calls);
  }

  std::string obstacle() {
    try {
      libraries_.clear();
      std::ranges::copy_if(all_.all(), std::back_inserter(libraries_), has_recorded_calls);
    } catch (const Error& error) {
      return fmt::format("{}. {}", error.what(), error.remedy());
    }
    std::set<const DeviceFamily*> needed{device_family("cudart"), device_family("cublaslt"),
                                         device_family("cudnn")};
    for (const DeviceLibrary& library : libraries_) needed.insert(library.family);
    FoundHeaders found = headers_.find({needed.begin(), needed.end()});
    used_ = std::move(found.folders);
    if (found.missing.empty()) return {};
    return fmt::format("Recording them needs the headers of CUDA's libraries, and {}",
                       lacking_headers(found.missing, torch_, cuda_));
  }

  BuildContents contents(const std::filesystem::path& folder) const {
    BuildContents contents{.includes = headers_.arguments(used_), .linked_with = {"-ldl"}};
    LibraryToBuild result{.name = "liboptrace_cuda_calls.so", .sources = {}};
    for (const DeviceLibrary& library : libraries_) {
      const std::string name(library.family->name);
      result.sources.push_back(folder / (name + "-forwarders.cpp"));
      contents.generators.push_back(
          generator_step("forward", library, folder, result.sources.back(), contents.includes));
    }
    for (const char* const source : kHandWritten) result.sources.push_back(sources_ / source);
    contents.libraries.push_back(std::move(result));
    return contents;
  }

 private:
  static bool has_recorded_calls(const DeviceLibrary& library) {
    return records_calls_of(*library.family) && !library.functions.empty();
  }

  static std::vector<const DeviceFamily*> families() {
    std::vector<const DeviceFamily*> result{device_family("cudart")};
    for (const std::string_view name : kFamilies) result.push_back(device_family(name));
    return result;
  }

  std::filesystem::path torch_;
  std::string cuda_;
  std::filesystem::path sources_;
  HeaderFolders headers_;
  LibrariesOfTorch all_;
  std::vector<DeviceLibrary> libraries_;  ///< Those with recorded calls.
  std::set<std::filesystem::path> used_;  ///< Folders that contain the families' headers.
};

}  // namespace

bool records_calls_of(const DeviceFamily& family) {
  return std::ranges::count(kFamilies, family.name) != 0;
}

BuildDescription cuda_calls_agent_description(const std::vector<std::filesystem::path>& torches) {
  const std::filesystem::path& torch = torches.front();
  BuildDescription build{
      .lacks =
          "The arguments of calls of CUDA's libraries (sizes, types, engines) are missing from the "
          "trace.",
      .progress = "compiling the recorder of CUDA library calls for this torch, once",
      .building = "Compiling its recorder",
      .cache = cache_folders::kCudaCalls,
      .torch_folder = torch,
      .sources = data_folder() / "emulated_device",
      .generator = device_generator_source(),
      .key_files = files_of_torch(torch),
      .standards = {"-std=c++17"},
      .compile_flags = {"-O1", "-fPIC", "-fvisibility=hidden", "-Wno-deprecated-declarations"},
      // A dry run also has the emulated device, so symbols that both define must bind to this
      // library's own.
      .link_flags = {"-shared", "-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-Wl,-z,now",
                     "-Wl,--no-undefined", "-pthread"},
  };
  const TorchVersion version = read_torch_version(torch).value_or(TorchVersion{});
  build.key = {version.text};
  const auto calls = std::make_shared<CudaCalls>(torches, version.cuda.value_or(""), build.sources);
  build.key_files.push_back(device_generator());
  for (auto& header : calls->headers()) build.key_files.push_back(std::move(header));
  build.misfit = [calls](const Prebuilt& prebuilt) { return calls->misfit(prebuilt); };
  build.obstacle = [calls] { return calls->obstacle(); };
  build.contents = [calls](const auto& folder) { return calls->contents(folder); };
  return build;
}

BuiltLibraries find_or_build_cuda_calls_agent(const std::filesystem::path& torch_folder,
                                              const BuildProgress& progress) {
  const auto version = read_torch_version(torch_folder);
  // Tracing CUDA on a torch without it is reported elsewhere.
  if (!version || !version->cuda) return {};
  return find_or_build(cuda_calls_agent_description({torch_folder}), progress);
}

}  // namespace optrace
