#pragma once

#include <CLI/App.hpp>

namespace optrace {

/// Adds `optrace source check` to `optrace source`: how complete an index is.
void add_source_check(CLI::App& source);

}  // namespace optrace
