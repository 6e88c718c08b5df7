#pragma once

#include <string_view>

namespace optrace {

/// Returns true if a function with this (mangled or C) name can be a step of an op's call path, so
/// that it gets a probe: by function_rows.h, vendor_libraries.h and fortran_routines.h, and as a
/// part of OpenMP, on which the call tree depends.
bool is_probed(std::string_view symbol);

}  // namespace optrace
