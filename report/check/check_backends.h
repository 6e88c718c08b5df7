#pragma once

#include <string_view>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Whether a rule may name this backend: `cudnn`, `onednn`, `flash`, ... in any case.
bool is_backend(std::string_view name);
std::vector<std::string_view> backend_names();

/// Whether it works on CUDA's tensors only: one of CUDA's libraries.
bool is_of_cuda(std::string_view backend);

/// Whether the frame is work of that backend.
bool is_work_of(const Frame& frame, std::string_view backend);

}  // namespace optrace
