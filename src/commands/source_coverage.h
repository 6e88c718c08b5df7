#pragma once

#include <CLI/App.hpp>

namespace optrace {

/// Adds `optrace source coverage`, which reports how complete an index is, to `optrace source`.
void add_source_coverage(CLI::App& source);

}  // namespace optrace
