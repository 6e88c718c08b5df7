#pragma once

#include <filesystem>
#include <string>

namespace optrace {

/// The Python to trace, and why it was that one, for messages: "--python", "$VIRTUAL_ENV".
struct PythonChoice {
  std::filesystem::path path;
  std::string reason;
};

/// The first of: `option` (--python), $OPTRACE_PYTHON, $VIRTUAL_ENV/bin/python, .venv/bin/python
/// beside the folder of the running command, python3 in PATH. A name without a slash, where one was
/// given, is looked up in PATH. Throws Error(usage) when the one that was asked for is no
/// executable file, or when there is none at all.
PythonChoice choose_python(const std::string& option);

}  // namespace optrace
