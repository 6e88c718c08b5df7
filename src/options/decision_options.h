#pragma once

#include <cstdint>
#include <string>

#include "src/command_line/option_row.h"

namespace optrace {

/// Of which calls the returned values are recorded.
struct DecisionOptions {
  std::string which = "first";  ///< The value of --decisions: first, all, none.

  bool asked_for() const { return which != "none"; }
  /// The number of values for each place that calls a function; 0: all.
  std::uint32_t returns_per_site() const;
};

/// --decisions first|all|none. `options` must outlive the row.
OptionRow decisions_row(DecisionOptions& options);

}  // namespace optrace
