#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "platform/elf/read_at.h"

namespace optrace {

/// Reads the numbers of call frame information. Past the end, it returns zeros and ok() is false.
class FrameReader {
 public:
  explicit FrameReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }
  std::span<const std::byte> rest() const { return bytes_; }

  template <typename T>
  T fixed() {
    const auto value = read_at<T>(bytes_, 0);
    skip(sizeof(T));
    return value.value_or(T{});
  }

  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; ok_; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  void skip(std::uint64_t size) {
    if (size > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
    } else {
      bytes_ = bytes_.subspan(size);
    }
  }

  std::span<const std::byte> take(std::uint64_t size) {
    const auto part = part_of(bytes_, 0, size);
    skip(size);
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

/// The rule for the canonical frame address: a register plus an offset.
struct CfaRule {
  std::uint64_t base = 0;
  std::uint64_t offset = 0;
  bool known = true;  ///< False while an expression defines the address.
};

/// Runs call frame instructions until their location is more than `distance` bytes after the start.
/// Returns false if an instruction is not supported.
bool run_frame_instructions(std::span<const std::byte> instructions, std::uint64_t code_alignment,
                            std::uint64_t distance, CfaRule& rule);

}  // namespace optrace
