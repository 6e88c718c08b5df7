#pragma once

#include <span>
#include <string_view>

namespace optrace {

// The parts of the page, which report/formats/html/script/embed.cmake makes.

/// The page's script, in pieces: the text of one element.
std::span<const std::string_view> page_scripts();
/// The SHA-256 of the script, in base64.
std::string_view page_script_hash();
std::string_view page_style();
std::string_view page_style_hash();

}  // namespace optrace
