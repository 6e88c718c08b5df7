#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

#include "indexer/store/index_contents.h"
#include "indexer/store/source_link.h"

namespace optrace {

/// Adds a line of an index to a place in JSON: `line`, null if it is 0; `exact`, null without a
/// line; and `interval`, if the line is approximate and its bounds are known.
void add_line(nlohmann::ordered_json& place, std::uint32_t line,
              const std::optional<LineInterval>& approximate, const IndexFit& fit);

/// Adds the keys that describe an index: `made_from`, `of_torch`, `exact`.
void add_fit(nlohmann::ordered_json& source, const IndexFit& fit);

}  // namespace optrace
