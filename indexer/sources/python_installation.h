#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace optrace {

/// The properties of a Python and its torch that indexing needs.
struct PythonInstallation {
  std::filesystem::path python;
  std::string torch_version;  ///< `2.6.0`, without a local part.
  std::string git_version;    ///< The upstream commit that the wheel was built from; may be empty.
  std::filesystem::path torch_folder;
  bool new_string_abi = true;  ///< torch._C._GLIBCXX_USE_CXX11_ABI
  /// The include folders of Python itself, of numpy and of the nvidia wheels.
  std::vector<std::filesystem::path> include_folders;
};

/// Runs `python` to examine it. Throws Error(usage) if it is not a Python, has no torch, or lacks
/// PyYAML, which PyTorch's code generators need.
PythonInstallation examine_python(const std::filesystem::path& python);

/// Runs `python` with `arguments` in `folder` without showing its output. If its exit status is not
/// 0, throws Error(failed) with the last lines of the output. `what` describes the task in the
/// message.
void run_python(const std::filesystem::path& python, const std::vector<std::string>& arguments,
                const std::filesystem::path& folder, const std::string& what);

}  // namespace optrace
