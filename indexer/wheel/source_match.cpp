#include "indexer/wheel/source_match.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>

#include "platform/whole_file.h"

namespace optrace {
namespace {

/// Returns the rest of the text from the start of a line on, from 1.
std::optional<std::string_view> from_line(std::string_view text, std::uint32_t line) {
  for (std::uint32_t number = 1; number < line; ++number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    text.remove_prefix(end + 1);
  }
  return text;
}

bool belongs_to_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Returns true if a line has a word like `TORCH_CHECK` or `AT_ERROR`, or names an error.
bool uses_macro(std::string_view line) {
  constexpr std::size_t kShortest = 3;  // CHECK, LOG.
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = at;
    bool is_capital = true;
    for (; end < line.size() && belongs_to_word(line[end]); ++end)
      is_capital = is_capital && std::islower(static_cast<unsigned char>(line[end])) == 0;
    if (is_capital && end - at >= kShortest) return true;
    at = std::max(end, at + 1);
  }
  return line.find("rror") != std::string_view::npos || line.find("arn") != std::string_view::npos;
}

/// Returns the longest part of a literal message that the source has in one piece: without
/// escapes, quotation marks and the seams of concatenated literals it can't be told where they are,
/// so only the first word is compared.
std::string_view first_word(std::string_view message) {
  std::size_t start = 0;
  while (start < message.size() && std::isalpha(static_cast<unsigned char>(message[start])) == 0)
    ++start;
  std::size_t end = start;
  while (end < message.size() && belongs_to_word(message[end])) ++end;
  return message.substr(start, end - start);
}

}  // namespace

bool matches(std::string_view text, const WheelAnchor& anchor) {
  const auto rest = from_line(text, anchor.place.line);
  if (!rest || !uses_macro(rest->substr(0, rest->find('\n')))) return false;
  // A macro's message, or the text that is made of its condition, is not far from its name.
  constexpr std::size_t kFar = 2000;
  const std::string_view word = first_word(anchor.message);
  constexpr std::string_view kMadeByMacro = "Expected";
  return word.empty() || word == kMadeByMacro ||
         rest->substr(0, kFar).find(word) != std::string_view::npos;
}

std::set<std::string> differing_files(const std::filesystem::path& tree,
                                      const std::vector<WheelAnchor>& anchors) {
  std::set<std::string> differing;
  std::string file;
  std::optional<std::string> text;
  for (const WheelAnchor& anchor : anchors) {
    if (anchor.place.file != file) {
      file = anchor.place.file;
      text = read_file(tree / file);
    }
    if (text && !differing.contains(file) && !matches(*text, anchor)) differing.insert(file);
  }
  return differing;
}

}  // namespace optrace
