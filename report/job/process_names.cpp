#include "report/job/process_names.h"

#include <cstddef>

#include <fmt/core.h>

namespace optrace {
namespace {

constexpr std::size_t kMaxParts = 8;
// Fewer consecutive numbers are listed.
constexpr std::size_t kMinRange = 4;

// Returns the end of the run of consecutive numbers that begins at `first`.
std::size_t end_of_run(const std::vector<std::uint64_t>& names, std::size_t first) {
  std::size_t end = first + 1;
  while (end < names.size() && names[end] > names[end - 1] && names[end] - names[end - 1] == 1)
    ++end;
  return end;
}

}  // namespace

std::string process_names(const std::vector<std::uint64_t>& list) {
  std::string text;
  std::size_t parts = 0;
  for (std::size_t i = 0; i < list.size(); ++parts) {
    if (parts == kMaxParts) return text + fmt::format(" and {} more", list.size() - i);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", list[i]);
    const std::size_t end = end_of_run(list, i);
    const bool is_range = end - i >= kMinRange;
    if (is_range) text += fmt::format(" to {}", list[end - 1]);
    i = is_range ? end : i + 1;
  }
  return text;
}

}  // namespace optrace
