#pragma once

#include <vector>

#include "src/doctor/doctor_check.h"
#include "src/inputs/python_choice.h"

namespace optrace {

/// Traces an op in a Python of its own: places probes, records the op, removes the probes, and
/// compares the result with that of an untraced call. Returns the checks `probes` and `tracing`.
/// Takes a few seconds. An InterruptGuard must live. Throws Error(interrupted).
std::vector<DoctorCheck> test_tracing(const PythonChoice& python, const DoctorProgress& progress);

/// Attaches to a Python that it starts, and records a few ops. Takes a few seconds. An
/// InterruptGuard must live. Throws Error(interrupted).
DoctorCheck test_attach(const PythonChoice& python, const DoctorProgress& progress);

}  // namespace optrace
