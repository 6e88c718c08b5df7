#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace optrace {

/// An installed torch, found from its files without starting Python.
struct InstalledTorch {
  std::filesystem::path python;  ///< The interpreter that imports it.
  std::filesystem::path folder;  ///< `.../site-packages/torch`
  std::string version;           ///< `2.6.0+cu124`
  std::string git_version;       ///< The upstream commit, 40 hex digits; empty if unknown.
};

/// Finds the torch that an interpreter would import. Searches the folders that Python's `site`
/// module puts on the path ($PYTHONPATH, the site-packages of the virtual environment or the
/// prefix, Debian's dist-packages, the user's own) and reads torch/version.py there. Returns
/// nothing if there is no torch, or if the interpreter is a script (a pyenv shim) that would have
/// to be run to find it.
std::optional<InstalledTorch> find_torch(const std::filesystem::path& python);

/// Asks a Python for the folder of the torch that it imports (site-packages/torch), which also
/// works for import hooks and scripts, and takes a moment. Returns an empty path if the Python does
/// not run or has no torch. Throws Error(interrupted) after a signal, if an InterruptGuard lives.
std::filesystem::path ask_for_torch(const std::filesystem::path& python);

}  // namespace optrace
