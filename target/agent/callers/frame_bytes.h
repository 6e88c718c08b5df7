#pragma once

#include <cstdint>

namespace optrace::agent {

/// Reads [at, end). A read beyond the end fails, and so do all later reads.
class Bytes {
 public:
  Bytes(std::uint64_t at, std::uint64_t end) : at_(at), end_(end) {}

  bool good() const { return good_; }
  bool at_end() const { return !good_ || at_ >= end_; }
  std::uint64_t at() const { return at_; }
  void fail() { good_ = false; }

  template <typename T>
  T take() {
    T value{};
    if (!good_ || end_ - at_ < sizeof(T)) {
      good_ = false;
      return value;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    __builtin_memcpy(&value, reinterpret_cast<const void*>(at_), sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void skip(std::uint64_t size) {
    good_ = good_ && size <= end_ - at_;
    at_ += good_ ? size : 0;
  }
  std::uint64_t unsigned_leb() {
    std::uint64_t value = 0;
    std::uint8_t byte = 0x80;
    for (unsigned shift = 0; good_ && (byte & 0x80) != 0; shift += 7) {
      byte = take<std::uint8_t>();
      value |= shift < 64 ? std::uint64_t{byte & 0x7FU} << shift : 0;
    }
    return value;
  }
  std::int64_t signed_leb() {
    std::uint64_t value = 0;
    std::uint8_t byte = 0x80;
    unsigned shift = 0;
    for (; good_ && (byte & 0x80) != 0; shift += 7) {
      byte = take<std::uint8_t>();
      value |= shift < 64 ? std::uint64_t{byte & 0x7FU} << shift : 0;
    }
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }

 private:
  std::uint64_t at_;
  std::uint64_t end_;
  bool good_ = true;
};

}  // namespace optrace::agent
