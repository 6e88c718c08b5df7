#pragma once

#include "report/compiled/triton_kernels.h"
#include "report/model/report.h"

namespace optrace {

/// Returns true for a function that launches a Triton kernel to measure configurations of it.
bool is_benchmark(const Frame& frame);

/// Adds to the device frames of Triton kernels where these are defined, for which constants they
/// were compiled, and what autotuning tried (report.schema.json). Requires add_compilations().
void add_triton_kernels(Report& report, const TritonKernels& kernels);

}  // namespace optrace
