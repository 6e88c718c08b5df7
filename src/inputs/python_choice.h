#pragma once

#include <filesystem>
#include <string>

namespace optrace {

struct Trace;

/// The Python to trace, and the reason for the choice, for messages: "--python", "$VIRTUAL_ENV".
struct PythonChoice {
  std::filesystem::path path;
  std::string reason;
  /// True if it is neither the one that was asked for nor that of optrace's own environment.
  bool found_elsewhere = false;
};

/// Returns `option` (--python), else $OPTRACE_PYTHON; a name without a slash is looked up in PATH.
/// Throws Error(usage) if that one is not an executable file.
///
/// Without either, returns the first that has torch of: the Python of the environment that optrace
/// is installed in, those of $VIRTUAL_ENV and $CONDA_PREFIX, of `.venv` in the working folder or
/// the nearest folder above it that has one, of `.venv` beside the folder of the running command,
/// and `python3` and `python` in PATH. If none has torch, returns the first of them, with the
/// others in `reason`. Prints a notice to standard error about a `.venv` that other users can
/// change, which is not used. Throws Error(usage) if there is no Python at all, and
/// Error(interrupted) after a signal, if an InterruptGuard lives.
PythonChoice choose_python(const std::string& option);

/// Adds the choice to a trace, for the header of its reports, if it was found elsewhere.
void describe_choice(const PythonChoice& python, Trace& trace);

}  // namespace optrace
