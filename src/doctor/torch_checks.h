#pragma once

#include <optional>
#include <string>

#include "pytorch/installed/installed_torch.h"
#include "src/doctor/doctor_check.h"
#include "src/inputs/python_choice.h"

namespace optrace {

/// The Python to trace, and its check.
struct FoundPython {
  std::optional<PythonChoice> choice;
  DoctorCheck check;
};

/// Throws Error(usage) if `python_option` (--python) is given and not valid.
FoundPython check_python(const std::string& python_option);

/// The torch of a Python, and its check.
struct FoundTorch {
  std::optional<InstalledTorch> torch;
  DoctorCheck check;
};

/// Starts the Python if its folders have no torch.
FoundTorch check_torch(const PythonChoice& python);

/// Checks that torch's libraries have the names of their own functions.
DoctorCheck check_symbols(const InstalledTorch& torch);

/// Checks that an index has the exact lines of the torch in use.
DoctorCheck check_index(const std::string& python_option);

}  // namespace optrace
