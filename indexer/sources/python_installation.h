#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace optrace {

/// What indexing needs to know of a Python and the torch in it.
struct PythonInstallation {
  std::filesystem::path python;
  std::string torch_version;  ///< `2.6.0`, without a local part.
  std::string git_version;    ///< The upstream commit that the wheel was built from; may be empty.
  std::filesystem::path torch_folder;
  bool new_string_abi = true;  ///< torch._C._GLIBCXX_USE_CXX11_ABI
  std::vector<std::filesystem::path>
      include_folders;  ///< Python's own, numpy's, the nvidia wheels'.
};

/// Asks `python`. Throws Error(usage) when it is no Python, has no torch, or lacks PyYAML, which
/// PyTorch's code generators need.
PythonInstallation examine_python(const std::filesystem::path& python);

/// Runs `python` with `arguments` in `folder`, quietly; the last lines of what it said go into the
/// Error(failed) thrown when it ends with another status than 0. `what` says what it was to do.
void run_python(const std::filesystem::path& python, const std::vector<std::string>& arguments,
                const std::filesystem::path& folder, const std::string& what);

}  // namespace optrace
