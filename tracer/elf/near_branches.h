#pragma once

#include <bit>
#include <cstddef>
#include <span>

#include <emmintrin.h>

namespace optrace {

/// Calls `visit(offset)` for each byte that may be the last opcode byte of a near branch: E8
/// (call), E9 (jmp), and 80 to 8F after 0F (jcc).
template <typename Visit>
void for_each_near_branch(std::span<const std::byte> code, Visit visit) {
  constexpr std::size_t kStep = sizeof(__m128i);
  const __m128i call_or_jump = _mm_set1_epi8(static_cast<char>(0xE8));
  const __m128i low_bit = _mm_set1_epi8(static_cast<char>(0xFE));
  const __m128i conditional = _mm_set1_epi8(static_cast<char>(0x80));
  const __m128i high_half = _mm_set1_epi8(static_cast<char>(0xF0));
  const __m128i escape = _mm_set1_epi8(0x0F);
  const auto* bytes = reinterpret_cast<const char*>(code.data());
  std::size_t at = 1;
  for (; at + kStep <= code.size(); at += kStep) {
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at));
    const __m128i before = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + at - 1));
    const __m128i is_call = _mm_cmpeq_epi8(_mm_and_si128(here, low_bit), call_or_jump);
    const __m128i is_jcc =
        _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(here, high_half), conditional),
                      _mm_cmpeq_epi8(before, escape));
    auto hits = static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(is_call, is_jcc)));
    for (; hits != 0; hits &= hits - 1) {
      visit(at + static_cast<unsigned>(std::countr_zero(hits)));
    }
  }
  // The loop leaves out the first byte and the last ones.
  const auto check = [&](std::size_t offset) {
    const auto byte = static_cast<unsigned char>(bytes[offset]);
    const bool is_jcc = offset > 0 && (byte & 0xF0) == 0x80 && bytes[offset - 1] == 0x0F;
    if ((byte & 0xFE) == 0xE8 || is_jcc) visit(offset);
  };
  if (!code.empty()) check(0);
  for (; at < code.size(); ++at) check(at);
}

}  // namespace optrace
