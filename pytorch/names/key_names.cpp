#include "pytorch/names/key_names.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <ranges>
#include <utility>

namespace optrace {
namespace {

constexpr unsigned kWordBits = 64;

bool has(std::uint64_t set, std::size_t bit) {
  return ((set >> bit) & 1U) != 0;
}

}  // namespace

KeyNames::KeyNames(unsigned backends, std::vector<Functionality> functionalities)
    : backends_(backends), functionalities_(std::move(functionalities)) {}

std::vector<std::string> KeyNames::all(std::uint64_t set) const {
  std::vector<std::string> result;
  for (std::size_t i = functionalities_.size(); i-- > 0;) {
    if (!has(set, backends_ + i)) continue;
    const Functionality& functionality = functionalities_[i];
    const std::size_t before = result.size();
    for (unsigned backend = backends_; backend-- > 0;)
      if (!functionality.of_backend.empty() && has(set, backend))
        result.push_back(functionality.of_backend[backend]);
    if (result.size() == before) result.push_back(functionality.name);
  }
  return result;
}

std::vector<std::string> KeyNames::candidates(const std::vector<std::string>& all) const {
  std::vector<std::string> result;
  const auto add = [&](const std::string& key) {
    const bool found = std::ranges::find(all, key) != all.end();
    if (found) result.push_back(key);
    return found;
  };
  for (const Functionality& functionality : std::views::reverse(functionalities_))
    if (functionality.of_backend.empty())
      add(functionality.name);
    else
      std::ranges::any_of(std::views::reverse(functionality.of_backend), add);
  return result;
}

bool KeyNames::plausible(std::uint64_t set) const {
  constexpr int kMaxKeys = 24;            // A stack address has more keys, in adjacent bits.
  constexpr std::uint64_t kStack = 0x7F;  // The highest byte of stack and library addresses.
  constexpr unsigned kHighestByte = 40;
  const auto size = static_cast<unsigned>(backends_ + functionalities_.size());
  if (size < kWordBits && (set >> size) != 0) return false;
  if ((set >> kHighestByte) == kStack || std::popcount(set) > kMaxKeys) return false;
  return !candidates(all(set)).empty();
}

std::optional<std::uint64_t> KeyNames::only_set(std::uint64_t first, std::uint64_t second) const {
  const bool is_first = plausible(first);
  if (is_first == plausible(second)) return std::nullopt;
  return is_first ? first : second;
}

}  // namespace optrace
