#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace optrace {

/// What a terminal can show.
enum class CharacterSet : std::uint8_t { ascii, unicode };

/// Returns the character set of the current locale (LC_CTYPE).
CharacterSet locale_characters();

/// Text for a terminal, with the number of columns that it takes there.
struct ScreenText {
  std::wstring text;
  std::size_t columns = 0;
};

/// Returns the start of UTF-8 text that fits into `limit` columns, with an ellipsis if that is not
/// all. Wide characters take two columns. Characters that take none, that the terminal can't show,
/// or that are not valid become escapes or ASCII.
ScreenText screen_text(std::string_view text, std::size_t limit, CharacterSet characters);

}  // namespace optrace
