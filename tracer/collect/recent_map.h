#pragma once

#include <cstddef>
#include <functional>
#include <unordered_map>
#include <utility>

namespace optrace {

/// A map that forgets its oldest entries. They are kept in two generations of at most `limit`, so
/// at least the last `limit` keys are there.
template <typename Key, typename Value, typename Hash = std::hash<Key>>
class RecentMap {
 public:
  explicit RecentMap(std::size_t limit) : limit_(limit) {}

  void set(const Key& key, const Value& value) {
    if (young_.size() >= limit_) {
      old_ = std::move(young_);
      young_.clear();
    }
    young_[key] = value;
  }

  /// Returns null if there is no such key, or no longer.
  const Value* find(const Key& key) const {
    for (const auto* const known : {&young_, &old_})
      if (const auto found = known->find(key); found != known->end()) return &found->second;
    return nullptr;
  }

 private:
  using Map = std::unordered_map<Key, Value, Hash>;

  std::size_t limit_;
  Map young_, old_;
};

}  // namespace optrace
