#include "gpu/build/activity_agent.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "gpu/build/cuda_headers.h"
#include "gpu/build/device_libraries.h"
#include "gpu/build/dry_run.h"
#include "gpu/libraries/device_families.h"
#include "platform/files/cache_folders.h"
#include "platform/files/installation.h"
#include "pytorch/installed/torch_version.h"

namespace optrace {

bool records_device_activity(bool dry_run) {
  if (const char* const wish = std::getenv("OPTRACE_DEVICE_ACTIVITY");
      wish != nullptr && *wish != '\0')
    return std::string_view(wish) != "0";
  return !dry_run && has_gpu();
}

BuildDescription activity_agent_description(const std::vector<std::filesystem::path>& torches) {
  const std::filesystem::path& torch = torches.front();
  const TorchVersion version = read_torch_version(torch).value_or(TorchVersion{});
  const std::string cuda = version.cuda.value_or("");
  BuildDescription build{
      .lacks = "Device activity (kernels, their times) is missing from the trace.",
      .progress = "compiling the recorder of device activity for this torch, once",
      .building = "Compiling its recorder",
      .cache = cache_folders::kActivityAgents,
      .torch_folder = torch,
      .sources = data_folder() / "device_activity",
      .key = {version.text},
      .standards = {"-std=c++20", "-std=c++17"},
      .compile_flags = {"-O2", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-pthread"},
      .link_flags = {"-shared", "-Wl,-z,nodelete", "-Wl,-z,now", "-pthread"},
  };
  const HeaderFolders headers(torches);
  const FoundHeaders found = headers.find({device_family("cupti"), device_family("cudart")});
  for (const auto& folder : found.folders)
    for (const char* const header : {"cupti_version.h", "cuda.h"})
      build.key_files.push_back(folder / header);
  // It reads records that all CUPTIs of a major version write alike.
  build.misfit = [cuda](const Prebuilt& prebuilt) {
    return cuda_major(prebuilt.cuda) == cuda_major(cuda)
               ? std::string()
               : fmt::format("is for CUDA {}", cuda_major(prebuilt.cuda));
  };
  build.obstacle = [found, torch, cuda] {
    return found.missing.empty() ? std::string()
                                 : fmt::format("Recording it needs the headers of CUPTI, and {}",
                                               lacking_headers(found.missing, torch, cuda));
  };
  build.contents = [headers, found, sources = build.sources](const auto&) {
    const auto folder = sources / "gpu/activity";
    return BuildContents{.includes = headers.arguments(found.folders),
                         .libraries = {{.name = "liboptrace_activity.so",
                                        .sources = {folder / "device_activity.cpp",
                                                    folder / "activity_records.cpp"}}},
                         .linked_with = {"-ldl"}};
  };
  return build;
}

BuiltLibraries find_or_build_activity_agent(const std::filesystem::path& torch_folder,
                                            const BuildProgress& progress) {
  const auto version = read_torch_version(torch_folder);
  // Tracing CUDA on a torch without it is reported elsewhere.
  if (!version || !version->cuda) return {};
  return find_or_build(activity_agent_description({torch_folder}), progress);
}

}  // namespace optrace
