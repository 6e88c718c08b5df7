#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace optrace {

/// Returns the T at `offset`, or nullopt if it does not lie inside `bytes`.
template <typename T>
std::optional<T> read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// Returns `size` bytes at `offset`, or an empty span if they don't lie inside.
inline std::span<const std::byte> part_of(std::span<const std::byte> bytes, std::uint64_t offset,
                                          std::uint64_t size) {
  if (offset > bytes.size() || bytes.size() - offset < size) return {};
  return bytes.subspan(offset, size);
}

}  // namespace optrace
