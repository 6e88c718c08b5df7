#include "report/job/process_names.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace optrace {
namespace {

constexpr std::size_t kMaxParts = 8;
// Fewer consecutive numbers are listed.
constexpr std::size_t kMinRange = 4;

using Names = std::vector<const nlohmann::json*>;

// Returns the end of the run of consecutive numbers that begins at `first`.
std::size_t end_of_run(const Names& names, std::size_t first) {
  const auto follows = [](const nlohmann::json& name, const nlohmann::json& before) {
    return name.is_number_unsigned() && before.is_number_unsigned() && name > before &&
           name.get<std::uint64_t>() - before.get<std::uint64_t>() == 1;
  };
  std::size_t end = first + 1;
  while (end < names.size() && follows(*names[end], *names[end - 1])) ++end;
  return end;
}

}  // namespace

std::string process_names(const nlohmann::json& list) {
  Names names;
  names.reserve(list.size());
  for (const nlohmann::json& name : list) names.push_back(&name);
  std::string text;
  std::size_t parts = 0;
  for (std::size_t i = 0; i < names.size(); ++parts) {
    if (parts == kMaxParts) return text + fmt::format(" and {} more", names.size() - i);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", names[i]->dump());
    const std::size_t end = end_of_run(names, i);
    const bool is_range = end - i >= kMinRange;
    if (is_range) text += fmt::format(" to {}", names[end - 1]->dump());
    i = is_range ? end : i + 1;
  }
  return text;
}

}  // namespace optrace
