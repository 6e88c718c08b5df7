#pragma once

#include <optional>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The index of the torch that was traced, or of the nearest, as find_index() has it.
std::optional<Index> find_index_of(const Trace& trace,
                                   std::vector<std::string>* warnings = nullptr);

}  // namespace optrace
