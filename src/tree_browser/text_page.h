#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/tree_browser/screen.h"

namespace optrace {

/// How the title in the first row of the screen is shown.
inline constexpr TextLook kTitleLook{.bold = true, .reverse = true};

/// Shows text over the whole screen until the user leaves it. Long lines are wrapped, and go on
/// `indent` columns to the right.
void show_page(Screen& screen, const std::string& title, const std::vector<std::string>& lines,
               std::size_t indent);

/// Returns a line in pieces of at most `width` characters; all but the first start with `indent`
/// spaces, if there is room for more.
std::vector<std::string> wrapped_line(const std::string& line, std::size_t width,
                                      std::size_t indent = 0);

}  // namespace optrace
