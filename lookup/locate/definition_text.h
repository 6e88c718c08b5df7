#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lookup/locate/located.h"

namespace optrace {

/// Returns the text of a definition in a file with these lines. `exact`: the line belongs to this
/// file. Otherwise the name is searched for, and the result is nothing if the file does not define
/// it.
std::optional<DefinitionText> definition_text(const std::vector<std::string>& lines,
                                              const Located& located, bool exact);

}  // namespace optrace
