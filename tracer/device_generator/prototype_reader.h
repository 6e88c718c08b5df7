#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/device_generator/prototype.h"

namespace optrace {

/// The prototypes of the C functions that `source` (C++ that includes headers) declares and whose
/// names `wanted` accepts, each once. Errors in headers are passed over as far as libclang can.
/// `arguments`: the compiler's (-isystem FOLDER). Throws Error(failed) if nothing can be parsed.
std::vector<Prototype> read_prototypes(const std::string& source,
                                       const std::vector<std::string>& arguments,
                                       const std::function<bool(std::string_view)>& wanted);

}  // namespace optrace
