#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "platform/text/printable_text.h"
#include "present/file_links.h"

namespace optrace {

/// Returns the width of printable UTF-8 text in columns, one for each character.
std::size_t columns(std::string_view text);

/// Returns the text with spaces at its end, so that it is at least `width` columns wide.
std::string padded(std::string_view text, std::size_t width);

/// SGR codes, for TerminalStyle::paint().
inline constexpr std::string_view kBold = "1";
inline constexpr std::string_view kDim = "2";
inline constexpr std::string_view kRed = "31";
inline constexpr std::string_view kGreen = "32";
inline constexpr std::string_view kYellow = "33";
inline constexpr std::string_view kBlue = "34";
inline constexpr std::string_view kMagenta = "35";
inline constexpr std::string_view kCyan = "36";
inline constexpr std::string_view kWarning = kYellow;

/// Text styles that the output supports.
struct TerminalStyle {
  bool colour = false;
  std::shared_ptr<const FileLinks> links{};  ///< Hyperlinks (OSC 8); null: none.

  /// Returns `text` in a colour, given by an SGR code such as kCyan or "1;33". Unchanged if `sgr`
  /// is empty.
  std::string paint(std::string_view text, std::string_view sgr) const;
  /// Returns `text`, linked to a place in a file if there is something to link to.
  std::string link(std::string_view text, const FilePlace& place) const;
};

/// Columns of the labels at the beginning of every line: a layer's name, or a field's.
inline constexpr std::size_t kLabelColumns = 12;

/// Returns a line without its end: a name in the column of labels, and a value.
std::string field_line(std::string_view name, std::string_view content, const TerminalStyle& style);

}  // namespace optrace
