#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

namespace optrace_ops {

/// Numbers the tensors that variables refer to. A later tensor at the same address gets another
/// number: a weak reference keeps the address from being used again. It keeps the TensorImpl alone,
/// since a tensor releases what it owns with the last strong reference.
class TensorTable {
 public:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  using Strong = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  /// Returns the number of a tensor that is alive, or 0 if there is no room for more. Moves the
  /// weak references to tensors that have ended to `dropped`: dropping one may take the GIL.
  std::uint32_t find_or_add(const c10::TensorImpl& tensor, std::vector<Weak>& dropped) {
    const auto found = tensors_.find(&tensor);
    if (found != tensors_.end()) return found->second.number;
    if (tensors_.size() >= sweep_at_) sweep(dropped);
    if (tensors_.size() >= kMost) return 0;
    auto* const object = const_cast<c10::TensorImpl*>(&tensor);
    c10::raw::weak_intrusive_ptr::incref(object);
    tensors_.emplace(&tensor, Entry{Weak::reclaim(object), ++count_});
    return count_;
  }

  /// Returns the tensor at an address if it has a number and is alive. Does not read what is at the
  /// address of any other.
  Strong find_alive(const c10::TensorImpl* address) const {
    const auto found = tensors_.find(address);
    return found == tensors_.end() ? Strong() : found->second.weak.lock();
  }

  /// Removes all tensors. Later ones get other numbers.
  void drop(std::vector<Weak>& dropped) {
    for (auto& [tensor, entry] : tensors_) dropped.push_back(std::move(entry.weak));
    tensors_.clear();
  }

  /// Same, but numbers start again.
  void clear(std::vector<Weak>& dropped) {
    drop(dropped);
    count_ = 0;
    sweep_at_ = kFirstSweep;
  }

 private:
  static constexpr std::size_t kMost = 65536;
  static constexpr std::size_t kFirstSweep = 1024;

  struct Entry {
    Weak weak;
    std::uint32_t number;
  };

  // Removes the tensors that have ended. The next sweep is due when there are twice as many.
  void sweep(std::vector<Weak>& dropped) {
    for (auto at = tensors_.begin(); at != tensors_.end();) {
      if (!at->second.weak.expired()) {
        ++at;
        continue;
      }
      dropped.push_back(std::move(at->second.weak));
      at = tensors_.erase(at);
    }
    sweep_at_ = std::max(kFirstSweep, 2 * tensors_.size());
  }

  std::unordered_map<const c10::TensorImpl*, Entry> tensors_;
  std::uint32_t count_ = 0;
  std::size_t sweep_at_ = kFirstSweep;
};

}  // namespace optrace_ops
