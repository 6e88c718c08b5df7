#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace optrace {

/// Maximum length of a symbol's name. The longest one in PyTorch 2.6.0 has 2,352 bytes.
inline constexpr std::size_t kMaxNameLength = 32 << 10;

/// Returns the string at `offset` in an ELF string table, or an empty one if `offset` lies outside.
/// The string is cut at `longest` bytes, because any number of symbols can refer to one long
/// string.
inline std::string_view elf_text(std::span<const std::byte> names, std::uint64_t offset,
                                 std::size_t longest) {
  if (offset >= names.size()) return {};
  const auto* const start = reinterpret_cast<const char*>(names.data()) + offset;
  return {start, ::strnlen(start, std::min<std::size_t>(longest, names.size() - offset))};
}

}  // namespace optrace
