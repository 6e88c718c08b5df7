#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/libraries/device_families.h"

namespace optrace {

// The headers of CUDA's libraries, against which the libraries for CUDA are built. The nvidia
// wheels beside a torch contain them.

/// Returns the folders for headers that are in no wheel: that of $CUDA_HOME, or else the usual
/// ones.
std::vector<std::filesystem::path> system_header_folders();

/// The headers of some families of libraries.
struct FoundHeaders {
  std::set<std::filesystem::path> folders;  ///< With the first header of each family found.
  std::vector<const DeviceFamily*> missing;
};

/// The folders that contain the headers of CUDA's libraries.
class HeaderFolders {
 public:
  /// `torches` are folders site-packages/torch. The wheels beside the first one come first.
  explicit HeaderFolders(const std::vector<std::filesystem::path>& torches);

  /// Returns the folder that contains `header`: a wheel's, else the system's.
  std::optional<std::filesystem::path> folder_of(std::string_view header) const;

  /// Searches for the first header of each family.
  FoundHeaders find(const std::vector<const DeviceFamily*>& families) const;

  /// Returns the headers of the families that were found.
  std::vector<std::filesystem::path> files_of(
      const std::vector<const DeviceFamily*>& families) const;

  /// Returns the compiler's arguments if the headers of the families lie in `used`: the wheels'
  /// folders, before all others, the system's folders that are in `used`, and the stub headers for
  /// headers that no wheel has.
  std::vector<std::string> arguments(const std::set<std::filesystem::path>& used) const;

 private:
  std::vector<std::filesystem::path> wheels_;
  std::vector<std::filesystem::path> system_;
};

/// Returns torch's own pip requirement, "nvidia-cublas-cu12==12.4.5.8", for the wheel with the
/// headers of `family`; without one, the wheel's name for that version of CUDA.
std::string requirement(const std::filesystem::path& torch_folder, const DeviceFamily& family,
                        const std::string& cuda);

/// Returns a message about the families, at least one, whose headers were not found: the headers,
/// the places that were searched, and the pip command for that version of CUDA. "cupti.h is neither
/// in the nvidia wheels beside torch nor in /usr/include: pip install
/// 'nvidia-cuda-cupti-cu12==12.4.127'".
std::string lacking_headers(const std::vector<const DeviceFamily*>& families,
                            const std::filesystem::path& torch_folder, const std::string& cuda);

}  // namespace optrace
