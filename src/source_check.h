#pragma once

#include <CLI/App.hpp>

namespace optrace {

/// Adds `optrace source check`, which reports how complete an index is, to `optrace source`.
void add_source_check(CLI::App& source);

}  // namespace optrace
