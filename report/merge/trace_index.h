#pragma once

#include <optional>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns find_index()'s index for the traced torch: the exact one or the nearest.
std::optional<Index> find_index_of(const Trace& trace,
                                   std::vector<std::string>* warnings = nullptr);

}  // namespace optrace
