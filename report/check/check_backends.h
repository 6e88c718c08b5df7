#pragma once

#include <string_view>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Returns true if a rule may name this backend: `cudnn`, `onednn`, `flash`, ... Case is ignored.
bool is_backend(std::string_view name);
std::vector<std::string_view> backend_names();

/// Returns true if the backend is one of CUDA's libraries, which work on CUDA tensors only.
bool is_of_cuda(std::string_view backend);

/// Returns true if the frame is work of that backend.
bool is_work_of(const Frame& frame, std::string_view backend);

}  // namespace optrace
