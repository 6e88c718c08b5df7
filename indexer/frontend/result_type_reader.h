#pragma once

#include <string>

#include <clang-c/Index.h>

namespace optrace {

/// Returns the text of a type (result_type.h) that functions return in rax: a boolean, an integer,
/// an enumeration, a pointer, or an std::optional of one of the first three. Empty for any other
/// type, and for one that depends on a template's parameters.
std::string result_type_text(CXType type);

}  // namespace optrace
