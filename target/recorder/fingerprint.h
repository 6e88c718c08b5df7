#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace optrace_ops {

/// A 128-bit hash of a sequence of words: two lanes of folded 64x64-bit multiplications (as in
/// wyhash). It is long enough that the records of a recording (at most 2^16) do not collide, so the
/// words themselves need not be stored.
class Fingerprint {
 public:
  void add(std::uint64_t word) {
    low_ = fold(low_ ^ word ^ 0xA0761D6478BD642FU, low_ + 0xE7037ED1A0B428DBU);
    high_ = fold(high_ + (word ^ 0x8EBC6AF09C88C6E3U), high_ ^ 0x589965CC75374CC3U);
  }

  void add(const char* text, std::size_t size) {
    add(size);
    for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text + at, size - at < sizeof word ? size - at : sizeof word);
      add(word);
    }
  }

  std::uint64_t low() const { return low_; }
  std::uint64_t high() const { return high_; }
  bool operator==(const Fingerprint& other) const {
    return low_ == other.low_ && high_ == other.high_;
  }

 private:
  static std::uint64_t fold(std::uint64_t left, std::uint64_t right) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(left) * right;
    // The factors are mixed in again, because a factor of 0 would otherwise clear the previous
    // state.
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U) ^
           (left << 1U) ^ right;
  }

  std::uint64_t low_ = 0x1D8E4E27C47D124FU;
  std::uint64_t high_ = 0xEB44ACCAB455D165U;
};

}  // namespace optrace_ops
