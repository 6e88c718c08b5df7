#include "gpu/build/cuda_headers.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "platform/files/installation.h"
#include "platform/text/joined.h"

namespace optrace {
namespace {

void add_folder(const std::filesystem::path& folder, std::vector<std::filesystem::path>& folders) {
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) folders.push_back(folder);
}

// Returns a description of the places that were searched for headers.
std::string looked_for_headers() {
  std::string places;
  for (const auto& folder : system_header_folders())
    places += fmt::format("{}{}", places.empty() ? "" : " or ", folder.string());
  return fmt::format("neither in the nvidia wheels beside torch nor in {}", places);
}

}  // namespace

std::vector<std::filesystem::path> system_header_folders() {
  if (const char* const home = std::getenv("CUDA_HOME"); home != nullptr && *home != '\0')
    return {std::filesystem::path(home) / "include"};
  return {"/usr/local/cuda/include", "/usr/include"};
}

HeaderFolders::HeaderFolders(const std::vector<std::filesystem::path>& torches) {
  for (const std::filesystem::path& torch : torches) {
    const std::filesystem::path packages = torch.parent_path();
    std::vector<std::filesystem::path> wheels;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(packages / "nvidia", error))
      add_folder(entry.path() / "include", wheels);
    add_folder(packages / "cusparselt" / "include", wheels);
    std::ranges::sort(wheels);
    wheels_.insert(wheels_.end(), wheels.begin(), wheels.end());
  }
  for (const auto& folder : system_header_folders()) add_folder(folder, system_);
}

std::optional<std::filesystem::path> HeaderFolders::folder_of(std::string_view header) const {
  for (const auto* const folders : {&wheels_, &system_}) {
    for (const auto& folder : *folders) {
      std::error_code error;
      if (std::filesystem::exists(folder / header, error)) return folder;
    }
  }
  return std::nullopt;
}

FoundHeaders HeaderFolders::find(const std::vector<const DeviceFamily*>& families) const {
  FoundHeaders found;
  for (const DeviceFamily* const family : families)
    if (const auto folder = folder_of(family->headers.front()))
      found.folders.insert(*folder);
    else
      found.missing.push_back(family);
  return found;
}

std::vector<std::filesystem::path> HeaderFolders::files_of(
    const std::vector<const DeviceFamily*>& families) const {
  std::vector<std::filesystem::path> files;
  for (const DeviceFamily* const family : families) {
    for (const std::string_view header : family->headers) {
      if (header.empty()) continue;
      if (const auto folder = folder_of(header)) files.push_back(*folder / header);
    }
  }
  return files;
}

std::vector<std::string> HeaderFolders::arguments(
    const std::set<std::filesystem::path>& used) const {
  std::vector<std::string> result;
  const auto add = [&](const char* option, const std::filesystem::path& folder) {
    // CUDA 13 has the headers that it takes from CCCL, such as nv/target, in a folder of their own.
    for (const auto& place : {folder, folder / "cccl"}) {
      std::error_code error;
      if (!std::filesystem::is_directory(place, error)) continue;
      result.emplace_back(option);
      result.push_back(place.string());
    }
  };
  for (const auto& folder : wheels_) add("-isystem", folder);
  for (const auto& folder : system_)
    if (used.contains(folder)) add("-idirafter", folder);
  result.emplace_back("-idirafter");
  result.push_back((data_folder() / "emulated_device/gpu/emulated/stub_headers").string());
  return result;
}

std::string requirement(const std::filesystem::path& torch_folder, const DeviceFamily& family,
                        const std::string& cuda) {
  const std::string wheel = fmt::format("nvidia-{}", family.wheel);
  std::string toolkit;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(torch_folder.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("torch-") || !name.ends_with(".dist-info")) continue;
    std::ifstream metadata(entry.path() / "METADATA");
    constexpr std::string_view kKey = "Requires-Dist: ";
    for (std::string line; std::getline(metadata, line) && !line.empty();) {
      if (!line.starts_with(kKey)) continue;
      std::string asked = line.substr(kKey.size(), line.find(';') - kKey.size());
      std::erase_if(asked, [](char c) { return c == '(' || c == ')' || c == ' '; });
      if (asked.starts_with(wheel) && (asked.size() == wheel.size() || asked[wheel.size()] == '-' ||
                                       asked[wheel.size()] == '='))
        return asked;
      if (asked.starts_with("cuda-toolkit[")) toolkit = asked;
    }
  }
  if (!toolkit.empty()) return toolkit;
  return fmt::format("{}-cu{}", wheel, cuda.substr(0, cuda.find('.')));
}

std::string lacking_headers(const std::vector<const DeviceFamily*>& families,
                            const std::filesystem::path& torch_folder, const std::string& cuda) {
  std::vector<std::string_view> headers;
  std::vector<std::string> wheels;
  for (const DeviceFamily* const family : families) {
    headers.push_back(family->headers.front());
    std::string wheel = fmt::format("'{}'", requirement(torch_folder, *family, cuda));
    if (std::ranges::find(wheels, wheel) == wheels.end()) wheels.push_back(std::move(wheel));
  }
  return fmt::format("{} {} {}: pip install {}", joined(headers, ", "),
                     headers.size() == 1 ? "is" : "are", looked_for_headers(), joined(wheels, " "));
}

}  // namespace optrace
