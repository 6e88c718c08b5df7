#pragma once

#include <vector>

#include "src/doctor/doctor_check.h"

namespace optrace {

/// Checks what the system allows: `ptrace scope`, `seccomp` and `memory locks`.
std::vector<DoctorCheck> check_permissions();

/// Checks that optrace's own files are there. `version` is `optrace 1.2.3`.
DoctorCheck check_installation(const std::string& version);

/// Checks that the cache can be used, and how large it is.
DoctorCheck check_cache();

/// Checks what the terminal supports. Never fails.
DoctorCheck check_terminal();

}  // namespace optrace
