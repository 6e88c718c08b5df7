#include "report/terminal_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

namespace optrace {
namespace {

struct Decoded {
  char32_t character;
  std::size_t bytes;
};

// The UTF-8 character at the start of `text`, if there is a well-formed one (RFC 3629).
std::optional<Decoded> decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return Decoded{first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return std::nullopt;
  char32_t character = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return std::nullopt;
    character = (character << 6U) | (byte(i) & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
  if (character < kSmallest[size] || character > 0x10FFFF || surrogate) return std::nullopt;
  return Decoded{character, size};
}

bool is_dangerous(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) ||  // C0, DEL, C1: escape sequences start there.
         (c >= 0x202A && c <= 0x202E) ||         // Embeddings and overrides of direction.
         (c >= 0x2066 && c <= 0x2069) ||         // Isolates.
         (c >= 0x200B && c <= 0x200F) || c == 0x61C ||  // Invisible, and marks of direction.
         c == 0x2028 || c == 0x2029 || c == 0xFEFF;     // Line ends, byte-order mark.
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Decoded> next = decode(text);
    if (!next) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
      text.remove_prefix(1);
      continue;
    }
    if (!is_dangerous(next->character))
      shown += text.substr(0, next->bytes);
    else if (next->character < 0x100)
      shown += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(next->character));
    else
      shown += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(next->character));
    text.remove_prefix(next->bytes);
  }
  return shown;
}

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string TerminalStyle::paint(std::string_view text, std::string_view sgr) const {
  if (!colour || sgr.empty() || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", sgr, text);
}

std::string TerminalStyle::link(std::string_view text, std::string_view url) const {
  const bool safe = url.starts_with("https://") &&
                    std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (!links || !safe || text.empty()) return std::string(text);
  return fmt::format("\x1b]8;;{}\x1b\\{}\x1b]8;;\x1b\\", url, text);
}

}  // namespace optrace
