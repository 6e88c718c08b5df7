#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace optrace {

/// A list in blocks that can be freed one by one. Growing it moves no elements, so that there are
/// never two copies of it.
template <typename T>
class ChunkedVector {
 public:
  ChunkedVector() = default;
  explicit ChunkedVector(std::size_t size) : size_(size) {
    for (std::size_t at = 0; at < size; at += kBlock)
      blocks_.push_back(std::make_unique<T[]>(kBlock));
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t at) { return blocks_[at / kBlock][at % kBlock]; }
  const T& operator[](std::size_t at) const { return blocks_[at / kBlock][at % kBlock]; }

  void push_back(const T& value) {
    if (size_ % kBlock == 0) blocks_.push_back(std::make_unique<T[]>(kBlock));
    (*this)[size_++] = value;
  }

  /// Frees the blocks that lie entirely before `end`.
  void drop_before(std::size_t end) {
    for (; dropped_ < end / kBlock; ++dropped_) blocks_[dropped_].reset();
  }

  /// Shortens the list to `begin` elements.
  void drop_from(std::size_t begin) {
    size_ = begin;
    while (blocks_.size() * kBlock >= begin + kBlock) blocks_.pop_back();
  }

 private:
  static constexpr std::size_t kBlock = 4096;

  std::vector<std::unique_ptr<T[]>> blocks_;
  std::size_t size_ = 0;
  std::size_t dropped_ = 0;  ///< Number of freed blocks.
};

}  // namespace optrace
