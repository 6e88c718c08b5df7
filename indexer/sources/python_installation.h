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
  bool has_yaml = false;       ///< It can import PyYAML.
  /// The include folders of Python itself, of numpy and of the nvidia wheels.
  std::vector<std::filesystem::path> include_folders;
};

/// Runs `python` to examine it. Throws Error(usage) if it is not a Python or has no torch.
PythonInstallation examine_python(const std::filesystem::path& python);

/// Throws Error(usage) if the Python lacks PyYAML, which PyTorch's code generators need.
void require_yaml(const PythonInstallation& python);

/// Returns a Python that can import PyYAML: the given one, that of optrace's own package
/// ($OPTRACE_OWN_PYTHON), or a `python3`. Torch's generators need no other package, so that any of
/// them can run the generators of any torch. Throws Error(usage) if there is none.
std::filesystem::path python_with_yaml(const PythonInstallation& python);

/// Runs `python` with `arguments` in `folder` without showing its output. If its exit status is not
/// 0, throws Error(failed) with the last lines of the output. `what` describes the task in the
/// message.
void run_python(const std::filesystem::path& python, const std::vector<std::string>& arguments,
                const std::filesystem::path& folder, const std::string& what);

}  // namespace optrace
