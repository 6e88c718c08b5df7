#include "gpu/build/dry_run.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "gpu/models/gpu_model.h"
#include "gpu/models/library_versions.h"
#include "platform/error.h"
#include "platform/text/joined.h"
#include "pytorch/installed/installed_torch.h"
#include "pytorch/installed/torch_version.h"

namespace optrace {
namespace {

// Environment variables of a dry run's processes and their children.
constexpr const char* kPreload = "LD_PRELOAD";
constexpr const char* kModel = "OPTRACE_DRY_RUN";
constexpr const char* kDevices = "OPTRACE_DRY_RUN_DEVICES";

/// Returns the products whose names have the longest common prefix with that one; a few if none
/// has.
std::vector<std::string> models_like(const std::string& requested) {
  constexpr std::size_t kMax = 12;
  const std::string key = emulated::model_key(requested.substr(0, requested.find(',')));
  const auto alike = [&key](const std::string& model) {
    return std::ranges::mismatch(key, model).in1 - key.begin();
  };
  std::vector<std::string> models = emulated_gpu_models();
  std::ranges::stable_sort(models, std::greater<>(), alike);
  models.resize(std::min(models.size(), kMax));
  return models;
}

emulated::GpuModel gpu_model_of(const std::string& model) {
  const emulated::GpuModelChoice choice = emulated::choose_gpu_model(model);
  if (choice.wrong.empty()) return choice.gpu_model;
  throw Error(
      ExitStatus::usage, choice.wrong,
      fmt::format("Choose an architecture ({}) or a product such as {}.",
                  joined(emulated_architectures(), ", "), joined(models_like(model), ", ")));
}

/// Returns ("cuda-cupti", "12.4.127") for nvidia_cuda_cupti_cu12-12.4.127.dist-info; empty texts
/// for a folder that is not a wheel's of NVIDIA.
std::pair<std::string, std::string> nvidia_wheel(std::string_view folder) {
  constexpr std::string_view kStart = "nvidia_";
  constexpr std::string_view kEnd = ".dist-info";
  const std::size_t dash = folder.find('-');
  if (!folder.starts_with(kStart) || !folder.ends_with(kEnd) || dash >= folder.size() - kEnd.size())
    return {};
  std::string name(folder.substr(kStart.size(), dash - kStart.size()));
  // The wheels for CUDA 12 end in its number, and some of those for CUDA 13.
  if (const std::size_t cuda = name.rfind("_cu");
      cuda != std::string::npos &&
      name.find_first_not_of("0123456789", cuda + 3) == std::string::npos)
    name.resize(cuda);
  std::ranges::replace(name, '_', '-');
  folder.remove_suffix(kEnd.size());
  return {std::move(name), std::string(folder.substr(dash + 1))};
}

}  // namespace

std::string reported_versions(const std::filesystem::path& torch_folder) {
  std::map<std::string, std::string> versions;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(torch_folder.parent_path(), error))
    versions.insert(nvidia_wheel(entry.path().filename().string()));
  if (const auto torch = read_torch_version(torch_folder); torch && torch->cuda)
    versions["cuda"] = *torch->cuda;
  std::string text;
  for (const emulated::VersionScheme& scheme : emulated::kVersionSchemes)
    if (const auto found = versions.find(std::string(scheme.library)); found != versions.end())
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", scheme.library, found->second);
  return text;
}

std::vector<std::string> emulated_architectures() {
  std::vector<std::string> names;
  names.reserve(std::size(emulated::kArchitectures));
  for (const emulated::Architecture& architecture : emulated::kArchitectures)
    names.emplace_back(architecture.name);
  return names;
}

std::vector<std::string> emulated_gpu_models() {
  std::vector<std::string> keys;
  keys.reserve(std::size(emulated::kGpuModels));
  for (const emulated::GpuModelRow& model : emulated::kGpuModels) keys.emplace_back(model.key);
  return keys;
}

void require_gpu_model(const std::string& model) {
  gpu_model_of(model);
}

std::string usual_gpu_model() {
  return emulated::kUsualModel;
}

bool has_gpu() {
  std::error_code ignored;
  return std::filesystem::exists("/dev/nvidiactl", ignored) ||
         std::filesystem::exists("/dev/dxg", ignored);  // WSL has the latter.
}

std::vector<std::pair<std::string, std::string>> DryRun::environment() const {
  const char* const before = std::getenv(kPreload);
  std::string preload = before == nullptr ? "" : before;
  for (const std::filesystem::path& library : emulation.libraries)
    preload += fmt::format("{}{}", preload.empty() ? "" : ":", library.string());
  return {{kPreload, std::move(preload)},
          {kModel, devices.gpu_model},
          {kDevices, std::to_string(devices.count)},
          {emulated::kVersionsVariable, versions},
          // Triton finds the driver by this variable.
          {"TRITON_LIBCUDA_PATH", emulation.libraries.front().parent_path().string()}};
}

std::optional<DryRun> prepare_dry_run(const std::filesystem::path& python,
                                      const EmulatedDevices& devices,
                                      const BuildProgress& progress) {
  require_gpu_model(devices.gpu_model);
  const std::filesystem::path torch = ask_for_torch(python);
  if (torch.empty()) return std::nullopt;
  DryRun dry_run{devices, find_or_build_emulated_device(torch, progress), reported_versions(torch)};
  if (!dry_run.emulation.libraries.empty()) return dry_run;
  throw Error(ExitStatus::usage,
              fmt::format("the torch of {} can't be used for a dry run", python.string()),
              dry_run.emulation.missing);
}

std::optional<DryRun> dry_run_of(const RunningProcess& process) {
  constexpr std::size_t kLimit = std::size_t{1} << 22;
  const std::string environment = process.read("environ", kLimit).text;
  const auto variable = [&environment](std::string_view name) -> std::string_view {
    std::string_view rest = environment;
    while (!rest.empty()) {
      const std::string_view entry = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
      if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
        return entry.substr(name.size() + 1);
    }
    return {};
  };
  DryRun dry_run;
  dry_run.devices.gpu_model = variable(kModel);
  if (!emulated::choose_gpu_model(dry_run.devices.gpu_model).wrong.empty()) return std::nullopt;
  const std::string_view count = variable(kDevices);
  std::from_chars(count.data(), count.data() + count.size(), dry_run.devices.count);
  const std::string preloaded = fmt::format(":{}:", variable(kPreload));
  std::set<std::string> libraries;
  for (const MappedPart& part : process.mapped_parts())
    if (preloaded.find(fmt::format(":{}:", part.path)) != std::string::npos)
      libraries.insert(part.path);
  dry_run.emulation.libraries.assign(libraries.begin(), libraries.end());
  if (libraries.empty()) return std::nullopt;
  return dry_run;
}

DryRun::GpuFacts DryRun::gpu() const {
  const emulated::GpuModel gpu_model = gpu_model_of(devices.gpu_model);
  const std::size_t settings = devices.gpu_model.find(',');
  return {std::string(gpu_model.arch),
          settings == std::string::npos
              ? std::string(gpu_model.name)
              : fmt::format("{} with {}", gpu_model.name, devices.gpu_model.substr(settings + 1))};
}

}  // namespace optrace
