#pragma once

#include <string>

namespace optrace {

/// Returns a function's name and parameters as C++; empty if the symbol can't be demangled.
std::string demangled(const std::string& symbol);

}  // namespace optrace
