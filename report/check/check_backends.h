#pragma once

#include <string_view>

#include "report/model/report.h"

namespace optrace {

/// Returns true if the frame is work of that backend (pytorch/libraries/backends.h).
bool is_work_of(const Frame& frame, std::string_view backend);

}  // namespace optrace
