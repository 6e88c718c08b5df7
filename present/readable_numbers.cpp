#include "present/readable_numbers.h"

#include <array>
#include <cstddef>
#include <utility>

#include <fmt/core.h>

namespace optrace {

std::string readable_time(std::uint64_t nanoseconds) {
  constexpr std::array<std::pair<double, std::string_view>, 3> kUnits{
      {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}}};
  for (const auto& [size, unit] : kUnits)
    if (static_cast<double>(nanoseconds) >= size)
      return fmt::format("{:.3g} {}", static_cast<double>(nanoseconds) / size, unit);
  return fmt::format("{} ns", nanoseconds);
}

std::string readable_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string readable_count(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", readable_count(count), noun, count == 1 ? "" : "s");
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string readable_size(std::uint64_t bytes) {
  constexpr std::array<std::pair<double, std::string_view>, 4> kUnits{
      {{1024.0 * 1024 * 1024 * 1024, "TiB"},
       {1024.0 * 1024 * 1024, "GiB"},
       {1024.0 * 1024, "MiB"},
       {1024.0, "KiB"}}};
  for (const auto& [size, unit] : kUnits)
    if (static_cast<double>(bytes) >= size)
      return fmt::format("{:.3g} {}", static_cast<double>(bytes) / size, unit);
  return fmt::format("{} B", bytes);
}

}  // namespace optrace
