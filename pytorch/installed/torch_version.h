#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace optrace {

/// The contents of torch/version.py. The values are as in the file, which anybody may have written.
struct TorchVersion {
  std::string text;                        ///< The whole file.
  std::optional<std::string> version;      ///< "2.6.0+cu124"
  std::optional<std::string> git_version;  ///< The upstream commit, 40 hex digits.
  std::optional<std::string> cuda;         ///< "12.4"
};

/// Parses the file. A value that is not a string, such as None, counts as missing.
TorchVersion parse_torch_version(std::string_view text);

/// Reads version.py in `torch_folder` (site-packages/torch). Returns nullopt if it can't be read.
std::optional<TorchVersion> read_torch_version(const std::filesystem::path& torch_folder);

}  // namespace optrace
