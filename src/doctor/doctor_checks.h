#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pytorch/installed/installed_torch.h"
#include "src/doctor/doctor_check.h"
#include "src/inputs/python_choice.h"

// The checks and self-tests of `optrace doctor`.

namespace optrace {

// system_checks.cpp

/// Checks what the system allows: `ptrace scope`, `seccomp` and `memory locks`.
std::vector<DoctorCheck> check_permissions();

/// Checks that optrace's own files are there. `version` is `optrace 1.2.3`.
DoctorCheck check_installation(const std::string& version);

/// Checks that the cache can be used, and how large it is.
DoctorCheck check_cache();

/// Checks what the terminal supports. Never fails.
DoctorCheck check_terminal();

// torch_checks.cpp

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

// build_checks.cpp

/// Checks that there is a C++ compiler for the libraries that are built for a torch.
DoctorCheck check_compiler();

/// Builds the library that records ops, unless it is cached. Throws Error(interrupted).
DoctorCheck test_op_records(const InstalledTorch& torch, const DoctorProgress& progress);

/// Checks that the emulated CUDA device can be built: the torch has CUDA, and its headers are
/// there. Builds nothing.
DoctorCheck check_dry_run(const InstalledTorch& torch);

/// Checks for a GPU and its driver. With a GPU, builds the library that records its work, unless it
/// is cached. Throws Error(interrupted).
DoctorCheck check_gpu(const InstalledTorch& torch, const DoctorProgress& progress);

// tracing_tests.cpp

/// Traces an op in a Python of its own: places probes, records the op, removes the probes, and
/// compares the result with that of an untraced call. Returns the checks `probes` and `tracing`.
/// Takes a few seconds. An InterruptGuard must live. Throws Error(interrupted).
std::vector<DoctorCheck> test_tracing(const PythonChoice& python, const DoctorProgress& progress);

/// Attaches to a Python that it starts, and records a few ops. Takes a few seconds. An
/// InterruptGuard must live. Throws Error(interrupted).
DoctorCheck test_attach(const PythonChoice& python, const DoctorProgress& progress);

}  // namespace optrace
