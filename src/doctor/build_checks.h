#pragma once

#include "pytorch/installed/installed_torch.h"
#include "src/doctor/doctor_check.h"

namespace optrace {

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

}  // namespace optrace
