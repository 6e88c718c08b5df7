#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace optrace {

/// Excludes quickly nearly all addresses that are not in a set: a bitmap in which a bit covers
/// four bytes. Addresses that differ by a multiple of its size share a bit, so its size depends on
/// the number of addresses alone, not on the distances between them.
class AddressFilter {
 public:
  /// Makes an empty set, for this many addresses.
  explicit AddressFilter(std::size_t count) : bits_(std::bit_ceil(kBitsEach * count + 1)) {}

  void add(std::uint64_t address) { bits_[bit_of(address)] = true; }

  /// Returns true for each address of the set, for those in the same four bytes as one, and for a
  /// few others.
  bool may_contain(std::uint64_t address) const { return bits_[bit_of(address)]; }

 private:
  static constexpr std::uint64_t kBlock = 4;
  static constexpr std::size_t kBitsEach = 16;

  std::size_t bit_of(std::uint64_t address) const {
    return (address / kBlock) & (bits_.size() - 1);
  }

  std::vector<bool> bits_;  // The size is a power of two.
};

}  // namespace optrace
