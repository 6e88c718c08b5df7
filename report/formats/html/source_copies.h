#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// A folder of this machine with files of PyTorch's source.
struct SourceCopy {
  std::string in_source;         ///< The path in the source tree that it stands for: `aten/src/`.
  std::filesystem::path folder;  ///< A file, if `in_source` is the path of one.
};

/// The first copy that has a file is used.
using SourceCopies = std::vector<SourceCopy>;

/// Returns what a wheel contains of the source: Python files, headers, yaml files. `torch_folder`
/// is the folder of the installed torch.
SourceCopies copies_in_wheel(const std::filesystem::path& torch_folder);

/// Returns the file on this machine for a path in the source tree. Empty if there is none.
std::filesystem::path find_copy(const SourceCopies& copies, std::string_view file);

/// Returns the lines of a source file, without their ends. Nothing if it is not a regular file, is
/// larger than 4 MiB, or its name does not end like that of a source file.
std::optional<std::vector<std::string>> read_source_lines(const std::filesystem::path& file);

}  // namespace optrace
