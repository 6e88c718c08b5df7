#include "present/terminal_text.h"

#include <algorithm>

#include <fmt/core.h>

namespace optrace {
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string padded(std::string_view text, std::size_t width) {
  const std::size_t taken = columns(text);
  std::string wide(text);
  if (taken < width) wide.append(width - taken, ' ');
  return wide;
}

std::string TerminalStyle::paint(std::string_view text, std::string_view sgr) const {
  if (!colour || sgr.empty() || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", sgr, text);
}

std::string TerminalStyle::link(std::string_view text, const FilePlace& place) const {
  const std::string url = links && !text.empty() ? links->url(place) : std::string();
  if (url.empty()) return std::string(text);
  return fmt::format("\x1b]8;;{}\x1b\\{}\x1b]8;;\x1b\\", url, text);
}

std::string field_line(std::string_view name, std::string_view content,
                       const TerminalStyle& style) {
  return style.paint(padded(name, kLabelColumns), kDim).append(content);
}

}  // namespace optrace
