#include "indexer/wheel/source_match.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>

#include "platform/files/whole_file.h"
#include "platform/text/ascii_text.h"

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

/// Returns true if a line has a word like `TORCH_CHECK` or `AT_ERROR`, or names an error.
bool uses_macro(std::string_view line) {
  constexpr std::size_t kShortest = 3;  // CHECK, LOG.
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = at;
    bool is_capital = true;
    for (; end < line.size() && is_word_character(line[end]); ++end)
      is_capital = is_capital && std::islower(static_cast<unsigned char>(line[end])) == 0;
    if (is_capital && end - at >= kShortest) return true;
    at = std::max(end, at + 1);
  }
  return line.find("rror") != std::string_view::npos || line.find("arn") != std::string_view::npos;
}

/// Returns true if a line uses a macro whose message is one of its arguments. The messages of other
/// macros, such as those that a file defines for itself, are elsewhere.
bool has_message_of_its_own(std::string_view line) {
  constexpr auto kMacros = std::to_array<std::string_view>(
      {"TORCH_CHECK(", "TORCH_INTERNAL_ASSERT(", "TORCH_WARN(", "AT_ASSERT(", "AT_ERROR("});
  return std::ranges::any_of(kMacros, [&](std::string_view macro) {
    const std::size_t at = line.find(macro);
    return at != std::string_view::npos && (at == 0 || !is_word_character(line[at - 1]));
  });
}

/// Returns the first word of a literal message. The source may have the message in several
/// literals, and with escapes.
std::string_view first_word(std::string_view message) {
  std::size_t start = 0;
  while (start < message.size() && std::isalpha(static_cast<unsigned char>(message[start])) == 0)
    ++start;
  std::size_t end = start;
  while (end < message.size() && is_word_character(message[end])) ++end;
  return message.substr(start, end - start);
}

}  // namespace

AnchorFit fit_of(std::string_view text, const WheelAnchor& anchor) {
  const auto rest = from_line(text, anchor.place.line);
  if (!rest) return AnchorFit::no_macro;
  const std::string_view line = rest->substr(0, rest->find('\n'));
  if (!uses_macro(line)) return AnchorFit::no_macro;
  if (!has_message_of_its_own(line)) return AnchorFit::fits;
  // The message, or the condition that it is made of, is not far from the macro's name.
  constexpr std::size_t kFar = 2000;
  constexpr std::string_view kMadeByMacro = "Expected";
  const std::string_view word = first_word(anchor.message);
  const bool found = word.empty() || word == kMadeByMacro ||
                     rest->substr(0, kFar).find(word) != std::string_view::npos;
  return found ? AnchorFit::fits : AnchorFit::no_message;
}

std::set<std::string> differing_files(const std::filesystem::path& tree,
                                      const std::vector<WheelAnchor>& anchors) {
  std::set<std::string> differing;
  for (std::size_t start = 0; start < anchors.size();) {
    const std::string& file = anchors[start].place.file;
    std::size_t end = start;
    while (end < anchors.size() && anchors[end].place.file == file) ++end;
    if (const std::optional<std::string> text = read_file(tree / file)) {
      std::size_t without_message = 0;
      bool differs = false;
      for (std::size_t i = start; i < end && !differs; ++i) {
        const AnchorFit fit = fit_of(*text, anchors[i]);
        differs = fit == AnchorFit::no_macro;
        if (fit == AnchorFit::no_message) ++without_message;
      }
      constexpr std::size_t kOneIn = 5;
      if (differs || without_message * kOneIn > end - start) differing.insert(file);
    }
    start = end;
  }
  return differing;
}

}  // namespace optrace
