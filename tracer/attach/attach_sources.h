#pragma once

#include <string>

namespace optrace {

/// Returns the Python file `name` in the folder of what runs in targets. Throws Error(failed).
std::string read_target_source(const char* name);

/// Returns the line with the modules that attach.py loads, each after those that it imports.
std::string line_of_sources();

/// Returns the text as a Python literal.
std::string python_literal(const std::string& text);

}  // namespace optrace
