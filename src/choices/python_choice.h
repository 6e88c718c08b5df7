#pragma once

#include <filesystem>
#include <string>

namespace optrace {

/// The Python to trace, and the reason for the choice, for messages: "--python", "$VIRTUAL_ENV".
struct PythonChoice {
  std::filesystem::path path;
  std::string reason;
};

/// Returns the first of: `option` (--python), $OPTRACE_PYTHON, $VIRTUAL_ENV/bin/python,
/// .venv/bin/python beside the folder of the running command, python3 in PATH. A given name without
/// a slash is looked up in PATH. Throws Error(usage) if the requested one is not an executable
/// file, or if there is none at all.
PythonChoice choose_python(const std::string& option);

}  // namespace optrace
