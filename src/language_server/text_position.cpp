#include "src/language_server/text_position.h"

#include <algorithm>

namespace optrace {
namespace {

/// Returns the number of bytes of the character that starts with this one.
std::size_t length_of(unsigned char first) {
  constexpr unsigned char kTwo = 0xc0;
  constexpr unsigned char kThree = 0xe0;
  constexpr unsigned char kFour = 0xf0;
  return first >= kFour ? 4 : first >= kThree ? 3 : first >= kTwo ? 2 : 1;
}

/// Calls `visit(bytes, units)` before each character, until it returns false.
template <typename Visit>
void each_character(std::string_view line, Visit visit) {
  constexpr std::size_t kSurrogatePair = 4;  // Characters of this many bytes are pairs in UTF-16.
  std::size_t units = 0;
  for (std::size_t at = 0; at < line.size();) {
    if (!visit(at, units)) return;
    const std::size_t length = length_of(static_cast<unsigned char>(line[at]));
    units += length == kSurrogatePair ? 2 : 1;
    at = std::min(at + length, line.size());
  }
  visit(line.size(), units);
}

}  // namespace

std::size_t bytes_before(std::string_view line, std::size_t units) {
  std::size_t found = 0;
  each_character(line, [&](std::size_t bytes, std::size_t count) {
    if (count > units) return false;
    found = bytes;
    return true;
  });
  return found;
}

std::size_t units_before(std::string_view line, std::size_t bytes) {
  std::size_t found = 0;
  each_character(line, [&](std::size_t at, std::size_t count) {
    if (at > bytes) return false;
    found = count;
    return true;
  });
  return found;
}

}  // namespace optrace
