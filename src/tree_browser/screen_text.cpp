#include "src/tree_browser/screen_text.h"

#include <algorithm>
#include <array>
#include <cwchar>

#include <fmt/core.h>
#include <langinfo.h>

#include "platform/text/printable_text.h"

namespace optrace {
namespace {

struct Replacement {
  char32_t character;
  std::wstring_view ascii;
};

// Characters that optrace itself writes.
constexpr auto kAscii = std::to_array<Replacement>({
    {U'─', L"-"},
    {U'│', L"|"},
    {U'├', L"|"},
    {U'└', L"`"},
    {U'▸', L"+"},
    {U'▾', L"-"},
    {U'×', L"x"},
    {U'…', L"..."},
    {U'→', L"->"},
    {U'↳', L">"},
    {U'µ', L"u"},
    {U'·', L"-"},
});

struct Piece {
  std::wstring text;
  std::size_t columns = 0;
};

Piece plain(std::wstring_view text) {
  return {std::wstring(text), text.size()};
}

Piece escape(char32_t c) {
  const auto number = static_cast<std::uint32_t>(c);
  const std::string text =
      c < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
  return plain(std::wstring(text.begin(), text.end()));
}

Piece piece_of(char32_t c, CharacterSet characters) {
  if (c < 0x80) return plain(std::wstring(1, static_cast<wchar_t>(c)));
  if (characters == CharacterSet::unicode) {
    const int width = ::wcwidth(static_cast<wchar_t>(c));
    if (width > 0)
      return {std::wstring(1, static_cast<wchar_t>(c)), static_cast<std::size_t>(width)};
    return escape(c);
  }
  const auto* const known = std::ranges::find(kAscii, c, &Replacement::character);
  return known != kAscii.end() ? plain(known->ascii) : escape(c);
}

// Returns the characters of valid UTF-8.
std::u32string decode(std::string_view text) {
  std::u32string characters;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t size = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    char32_t c = size == 1 ? first : first & (0xFFU >> (size + 1));
    for (std::size_t k = 1; k < size && i + k < text.size(); ++k)
      c = (c << 6U) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    characters += c;
    i += size;
  }
  return characters;
}

}  // namespace

CharacterSet locale_characters() {
  return std::string_view(::nl_langinfo(CODESET)) == "UTF-8" ? CharacterSet::unicode
                                                             : CharacterSet::ascii;
}

ScreenText screen_text(std::string_view text, std::size_t limit, CharacterSet characters) {
  const Piece ellipsis = piece_of(U'…', characters);
  ScreenText shown;
  ScreenText with_ellipsis;  // What is shown if the text turns out to be too long.
  for (const char32_t c : decode(printable(text))) {
    const Piece piece = piece_of(c, characters);
    if (shown.columns + ellipsis.columns <= limit) with_ellipsis = shown;
    if (shown.columns + piece.columns > limit) {
      if (ellipsis.columns > limit) return shown;
      with_ellipsis.text += ellipsis.text;
      with_ellipsis.columns += ellipsis.columns;
      return with_ellipsis;
    }
    shown.text += piece.text;
    shown.columns += piece.columns;
  }
  return shown;
}

}  // namespace optrace
