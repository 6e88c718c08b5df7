#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace optrace {

/// Texts that a page contains once. The empty text has the number 0.
class PageTexts {
 public:
  PageTexts() { number_of(""); }

  std::uint64_t number_of(const std::string& text) {
    const auto [at, added] = numbers_.try_emplace(text, numbers_.size());
    if (added) texts_.push_back(&at->first);
    return at->second;
  }

  const std::vector<const std::string*>& all() const { return texts_; }

 private:
  std::unordered_map<std::string, std::uint64_t> numbers_;
  std::vector<const std::string*> texts_;  // Keys of numbers_, which do not move.
};

}  // namespace optrace
