#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/generator/prototype.h"

namespace optrace {

/// Returns the prototypes of the C functions that `source` (C++ that includes headers) declares and
/// whose names `accepts` accepts, without duplicates. Errors in headers are ignored as far as
/// libclang can recover. `arguments` are compiler arguments (-isystem FOLDER). Throws Error(failed)
/// if nothing can be parsed.
std::vector<Prototype> read_prototypes(const std::string& source,
                                       const std::vector<std::string>& arguments,
                                       const std::function<bool(std::string_view)>& accepts);

}  // namespace optrace
