#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/device_generator/device_families.h"

namespace optrace {

// The headers of CUDA's libraries, against which is built what works with them for the torch at
// hand: the nvidia wheels beside that torch bring them.

/// What torch's version.py says of `name`: "12.4" of `cuda: Optional[str] = '12.4'`; nothing for
/// None.
std::optional<std::string> value_in(const std::string& version_file, std::string_view name);

/// Where to look for headers that no wheel brings: where $CUDA_HOME says, or the usual places.
std::vector<std::filesystem::path> system_header_folders();

/// Where the headers of CUDA's libraries are.
class HeaderFolders {
 public:
  /// `torch_folder`: site-packages/torch.
  explicit HeaderFolders(const std::filesystem::path& torch_folder);

  /// The folder that has `header`: a wheel's, else the system's.
  std::optional<std::filesystem::path> folder_of(std::string_view header) const;

  /// The compiler's arguments, when the headers of the families lie in `used`: the wheels' folders
  /// before everything, those of the system only where a header comes from there.
  std::vector<std::string> arguments(const std::set<std::filesystem::path>& used) const;

 private:
  std::vector<std::filesystem::path> wheels_;
  std::vector<std::filesystem::path> system_;
};

/// What torch itself asks pip for, "nvidia-cublas-cu12==12.4.5.8", of the wheel that brings the
/// headers of `family`; else as it is called for that version of CUDA.
std::string requirement(const std::filesystem::path& torch_folder, const DeviceFamily& family,
                        const std::string& cuda);

/// What to say of families whose headers were not found, at least one: which headers, where they
/// were looked for, and what pip is to install for that version of CUDA. "cupti.h is neither in the
/// nvidia wheels beside torch nor in /usr/include: pip install 'nvidia-cuda-cupti-cu12==12.4.127'".
std::string lacking_headers(const std::vector<const DeviceFamily*>& families,
                            const std::filesystem::path& torch_folder, const std::string& cuda);

}  // namespace optrace
