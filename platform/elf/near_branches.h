#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <emmintrin.h>

namespace optrace {

/// 16 bytes of code that are tested at once. A test sets all bits of the bytes that pass it.
class CodeBytes {
 public:
  static constexpr std::size_t kCount = sizeof(__m128i);

  explicit CodeBytes(const std::byte* at)
      : bytes_(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))) {}

  /// Tests whether the bits of `mask` are those of `value`.
  __m128i are(unsigned char value, unsigned char mask = 0xFF) const {
    return _mm_cmpeq_epi8(_mm_and_si128(bytes_, each(mask)), each(value));
  }

 private:
  static __m128i each(unsigned char byte) { return _mm_set1_epi8(static_cast<char>(byte)); }

  __m128i bytes_;
};

/// Calls `visit(offset)` for each byte from `first` to before `end` whose test passes:
/// `test(offset)` tests the CodeBytes from there on. Visits a multiple of 64 bytes, because most
/// have some hit, and returns the offset of the first byte that was left out.
template <typename Test, typename Visit>
std::size_t for_each_passing_byte(std::size_t first, std::size_t end, Test test, Visit visit) {
  using Hits = std::uint64_t;
  constexpr std::size_t kBlock = 8 * sizeof(Hits);
  std::size_t at = first;
  for (; at + kBlock <= end; at += kBlock) {
    Hits hits = 0;
    for (std::size_t i = 0; i < kBlock; i += CodeBytes::kCount)
      hits |= Hits{static_cast<unsigned>(_mm_movemask_epi8(test(at + i)))} << i;
    for (; hits != 0; hits &= hits - 1) visit(at + static_cast<unsigned>(std::countr_zero(hits)));
  }
  return at;
}

/// Calls `visit(offset)` for each byte that may be the last opcode byte of a near branch: E8
/// (call), E9 (jmp), and 80 to 8F after 0F (jcc).
template <typename Visit>
void for_each_near_branch(std::span<const std::byte> code, Visit visit) {
  const auto test = [&](std::size_t at) {
    const CodeBytes here(&code[at]);
    const __m128i is_jcc = _mm_and_si128(here.are(0x80, 0xF0), CodeBytes(&code[at - 1]).are(0x0F));
    return _mm_or_si128(here.are(0xE8, 0xFE), is_jcc);
  };
  const auto check = [&](std::size_t at) {
    const auto byte = std::to_integer<unsigned>(code[at]);
    const bool is_jcc = at > 0 && (byte & 0xF0U) == 0x80 && code[at - 1] == std::byte{0x0F};
    if ((byte & 0xFEU) == 0xE8 || is_jcc) visit(at);
  };
  if (!code.empty()) check(0);
  for (std::size_t at = for_each_passing_byte(1, code.size(), test, visit); at < code.size(); ++at)
    check(at);
}

/// Calls `visit(offset)` for each byte that may be the opcode of a direct call: E8.
template <typename Visit>
void for_each_direct_call(std::span<const std::byte> code, Visit visit) {
  constexpr unsigned char kOpcode = 0xE8;
  const auto test = [&](std::size_t at) { return CodeBytes(&code[at]).are(kOpcode); };
  for (std::size_t at = for_each_passing_byte(0, code.size(), test, visit); at < code.size(); ++at)
    if (code[at] == std::byte{kOpcode}) visit(at);
}

/// Calls `visit(offset)` for each FF byte that may be the opcode of a call through a register or a
/// pointer, whose ModRM byte has 2 as the operation, or of a jump through a slot: FF 25.
template <typename Visit>
void for_each_indirect_branch(std::span<const std::byte> code, Visit visit) {
  constexpr unsigned char kOperation = 7U << 3U;
  constexpr unsigned char kCall = 2U << 3U;
  constexpr unsigned char kJumpThroughSlot = 0x25;
  if (code.empty()) return;
  const std::size_t end = code.size() - 1;  // The opcode is not the last byte.
  const auto test = [&](std::size_t at) {
    const CodeBytes next(&code[at + 1]);
    return _mm_and_si128(CodeBytes(&code[at]).are(0xFF),
                         _mm_or_si128(next.are(kCall, kOperation), next.are(kJumpThroughSlot)));
  };
  for (std::size_t at = for_each_passing_byte(0, end, test, visit); at < end; ++at) {
    const auto next = std::to_integer<unsigned char>(code[at + 1]);
    if (code[at] == std::byte{0xFF} && ((next & kOperation) == kCall || next == kJumpThroughSlot))
      visit(at);
  }
}

}  // namespace optrace
