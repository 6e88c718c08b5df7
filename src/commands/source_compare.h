#pragma once

#include <CLI/App.hpp>

namespace optrace {

/// Adds `optrace source compare`, which shows how the ops of two versions differ, to `optrace
/// source`.
void add_source_compare(CLI::App& source);

}  // namespace optrace
