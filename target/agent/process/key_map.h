#pragma once

#include <cstdint>

#include "target/agent/process/pages.h"

namespace optrace::agent {

/// Hash table keyed by the entries' member `key`, which must not be 0: open addressing, at most
/// half full. Not locked. A lookup allocates nothing, calls nothing and uses general registers
/// only, so the record routine can make one.
template <typename Entry>
class KeyMap {
 public:
  std::uint64_t size() const { return size_; }

  /// Returns null if the key is absent. The pointer is valid until an entry is set or erased.
  Entry* find(std::uint64_t key) const {
    if (table_.count == 0) return nullptr;
    Entry& place = table_[place_of(table_, key)];
    return place.key == key ? &place : nullptr;
  }

  /// Adds an entry or replaces the one with the same key. Returns null if memory can't be
  /// allocated.
  Entry* set(const Entry& entry) {
    if (find(entry.key) == nullptr) {
      if (!make_room()) return nullptr;
      ++size_;
    }
    Entry& place = table_[place_of(table_, entry.key)];
    place = entry;
    return &place;
  }

  void erase(std::uint64_t key) {
    if (find(key) == nullptr) return;
    // Move the entries after the free place, up to the next free one, closer to where their search
    // begins.
    std::uint64_t free = place_of(table_, key);
    for (std::uint64_t i = after(table_, free); table_[i].key != 0; i = after(table_, i)) {
      const std::uint64_t searched = distance(table_, first_place(table_, table_[i].key), i);
      if (searched >= distance(table_, free, i)) {
        table_[free] = table_[i];
        free = i;
      }
    }
    table_[free] = {};
    --size_;
  }

  /// Removes all entries and frees the memory.
  void release() {
    table_.release();
    size_ = 0;
  }

 private:
  using Table = PageArray<Entry>;

  static std::uint64_t first_place(const Table& table, std::uint64_t key) {
    return (key * 0x9E37'79B9'7F4A'7C15ULL) >> 20 & (table.count - 1);
  }
  static std::uint64_t after(const Table& table, std::uint64_t place) {
    return (place + 1) & (table.count - 1);
  }
  static std::uint64_t distance(const Table& table, std::uint64_t from, std::uint64_t to) {
    return (to - from) & (table.count - 1);
  }
  // Index of the key, or of the place where it would be inserted.
  static std::uint64_t place_of(const Table& table, std::uint64_t key) {
    std::uint64_t i = first_place(table, key);
    while (table[i].key != 0 && table[i].key != key) i = after(table, i);
    return i;
  }

  bool make_room() {
    if ((size_ + 1) * 2 <= table_.count) return true;
    constexpr std::uint64_t kSmallest = 4096;
    Table larger;
    if (!larger.allocate(table_.count == 0 ? kSmallest : table_.count * 2)) return false;
    for (std::uint64_t i = 0; i < table_.count; ++i)
      if (table_[i].key != 0) larger[place_of(larger, table_[i].key)] = table_[i];
    table_.release();
    table_ = larger;
    return true;
  }

  Table table_;
  std::uint64_t size_ = 0;
};

struct IdEntry {
  std::uint64_t key;
  std::uint32_t id;
  std::uint32_t check;  ///< Further data about the key, defined by the user of the map.
};

using IdMap = KeyMap<IdEntry>;

}  // namespace optrace::agent
