#include "platform/text/printable_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include <fmt/core.h>

namespace optrace {
namespace {

struct Decoded {
  char32_t character;
  std::size_t bytes;
};

// Returns the character at the start of `text`, if it is valid UTF-8 (RFC 3629) or a surrogate that
// is encoded alike, as by Python's `surrogatepass`.
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
  if (character < kSmallest[size] || character > 0x10FFFF) return std::nullopt;
  return Decoded{character, size};
}

struct Range {
  char32_t first, last;
};
// Sorted. Unicode's Default_Ignorable_Code_Point except the variation selectors of emoji, and the
// characters that the comment in the header adds.
constexpr auto kHarmful = std::to_array<Range>({
    {0x00, 0x1F},       {0x7F, 0x9F},      // C0, DEL, C1: escape sequences start there.
    {0xAD, 0xAD},                          // Soft hyphen.
    {0x34F, 0x34F},     {0x61C, 0x61C},    // Grapheme joiner; Arabic letter mark.
    {0x115F, 0x1160},   {0x17B4, 0x17B5},  // Fillers; vowels that are not shown.
    {0x180B, 0x180F},   {0x200B, 0x200F},  // Mongolian separators; zero-width, marks of direction.
    {0x2028, 0x202E},   {0x2060, 0x206F},  // Ends of lines, directions; joiners, isolates.
    {0x3164, 0x3164},   {0xD800, 0xDFFF},  // Filler; surrogates.
    {0xFDD0, 0xFDEF},   {0xFEFF, 0xFEFF},  // Noncharacters; byte-order mark.
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},  // Filler; annotations.
    {0xFFFE, 0xFFFF},   {0x1BCA0, 0x1BCA3},  // Noncharacters; shorthand controls.
    {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},  // Musical controls; tags.
});

bool is_harmful(char32_t c) {
  const auto range = std::ranges::lower_bound(kHarmful, c, {}, &Range::last);
  return (range != kHarmful.end() && range->first <= c) || (c & 0xFFFEU) == 0xFFFE;
}

std::string escape(char32_t c) {
  const auto number = static_cast<std::uint32_t>(c);
  if (c < 0x100) return fmt::format("\\x{:02x}", number);
  return c < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
}

/// Returns the size of an SGR sequence or OSC 8 link at the start of `text`, in the form that
/// TerminalStyle writes; 0 if there is none.
std::size_t own_sequence(std::string_view text) {
  constexpr std::string_view kColour = "\x1b[", kLink = "\x1b]8;;", kEnd = "\x1b\\";
  if (text.starts_with(kColour)) {
    const std::size_t end = text.find_first_not_of("0123456789;", kColour.size());
    return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
  }
  if (!text.starts_with(kLink)) return 0;
  const auto end = std::ranges::find_if(text.begin() + kLink.size(), text.end(),
                                        [](char c) { return c <= ' ' || c >= 0x7F; });
  const auto at = static_cast<std::size_t>(end - text.begin());
  const std::string_view url = text.substr(kLink.size(), at - kLink.size());
  const std::size_t scheme =
      url.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
  const bool good =
      url.empty() || (scheme != std::string_view::npos && scheme != 0 && url[scheme] == ':');
  return good && text.substr(at).starts_with(kEnd) ? at + kEnd.size() : 0;
}

/// Returns the number of bytes at the start of `text` that are harmless in any context.
std::size_t plain_bytes(std::string_view text) {
  const auto end = std::ranges::find_if(
      text, [](char c) { return c <= ' ' || c >= 0x7F || c == '#' || c == ':'; });
  return static_cast<std::size_t>(end - text.begin());
}

enum class Kept : std::uint8_t { nothing, lines, lines_and_sequences };

class Printer {
 public:
  Printer(std::string_view text, Kept kept) : rest_(text), kept_(kept) {
    shown_.reserve(text.size());
  }

  std::string print() {
    while (!rest_.empty()) next();
    return std::move(shown_);
  }

 private:
  void next() {
    if (const std::size_t size = plain_bytes(rest_); size != 0) {
      at_start_ = false;
      return take(size);
    }
    if (kept_ != Kept::nothing && keep_line()) return;
    if (kept_ == Kept::lines_and_sequences)
      if (const std::size_t size = own_sequence(rest_); size != 0) return take(size);
    const std::optional<Decoded> decoded = decode(rest_);
    if (decoded && !is_harmful(decoded->character) && !at_command()) {
      at_start_ = at_start_ && decoded->character == ' ';
      return take(decoded->bytes);
    }
    shown_ += escape(decoded ? decoded->character : static_cast<unsigned char>(rest_.front()));
    rest_.remove_prefix(decoded ? decoded->bytes : 1);
    at_start_ = false;
  }

  /// Takes white space that stays from the start of the rest. Returns false if there is none.
  bool keep_line() {
    if (rest_.front() == '\n' || rest_.front() == '\t') {
      at_start_ = at_start_ || rest_.front() == '\n';
      take(1);
      return true;
    }
    return false;
  }

  /// Returns true if the rest starts with a command for a CI runner.
  bool at_command() const {
    return rest_.starts_with("##[") ||
           (kept_ != Kept::nothing && at_start_ && rest_.starts_with("::"));
  }

  void take(std::size_t size) {
    shown_ += rest_.substr(0, size);
    rest_.remove_prefix(size);
  }

  std::string_view rest_;
  Kept kept_;
  bool at_start_ = true;  // True at the start of a line, ignoring white space.
  std::string shown_;
};

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::optional<Decoded> next = decode(text);
    const std::size_t size = next ? next->bytes : 1;
    const bool surrogate = next && next->character >= 0xD800 && next->character <= 0xDFFF;
    if (next && !surrogate)
      valid += text.substr(0, size);
    else
      valid += escape(next ? next->character : static_cast<unsigned char>(text.front()));
    text.remove_prefix(size);
  }
  return valid;
}

std::string printable(std::string_view text) {
  return Printer(text, Kept::nothing).print();
}

std::string printable_start(std::string_view text, std::size_t limit) {
  return printable(text.substr(0, limit)) + (text.size() > limit ? "..." : "");
}

std::string printable_lines(std::string_view text) {
  return Printer(text, Kept::lines).print();
}

std::string printable_output(std::string_view text) {
  return Printer(text, Kept::lines_and_sequences).print();
}

std::string printable_json(std::string_view json) {
  std::string shown;
  shown.reserve(json.size());
  while (!json.empty()) {
    if (const std::size_t size = plain_bytes(json); size != 0) {
      shown += json.substr(0, size);
      json.remove_prefix(size);
      continue;
    }
    const std::optional<Decoded> next = decode(json);
    const std::size_t size = next ? next->bytes : 1;
    // A command for a CI runner; in JSON, only a string can contain it.
    if (json.starts_with("##[")) {
      shown += "\\u0023";
      json.remove_prefix(1);
      continue;
    }
    // JSON has escaped the characters below 0x7F that need it, and white space is between values.
    if (!next || next->character < 0x7F || !is_harmful(next->character))
      shown += json.substr(0, size);
    else if (const auto c = static_cast<std::uint32_t>(next->character); c < 0x10000)
      shown += fmt::format("\\u{:04x}", c);
    else
      shown += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10U), 0xDC00 + (c & 0x3FFU));
    json.remove_prefix(size);
  }
  return shown;
}

}  // namespace optrace
