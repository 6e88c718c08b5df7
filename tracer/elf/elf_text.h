#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace optrace {

/// The text that an ELF file's table of names has at `offset`, empty where it has none. Any number
/// of symbols can name one long text, so that a text is cut where it is longer than `longest`.
inline std::string_view elf_text(std::span<const std::byte> names, std::uint64_t offset,
                                 std::size_t longest) {
  if (offset >= names.size()) return {};
  const auto* const start = reinterpret_cast<const char*>(names.data()) + offset;
  return {start, ::strnlen(start, std::min<std::size_t>(longest, names.size() - offset))};
}

}  // namespace optrace
