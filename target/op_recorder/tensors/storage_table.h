#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

namespace optrace_ops {

/// Numbers the storages of a process. The number of a storage stays the same until its end, and a
/// later storage gets another number, also at the same address: a weak reference keeps the address
/// from being used again. It does not keep the data, which is freed with the last strong reference.
class StorageTable {
 public:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;

  struct Known {
    std::uint32_t number = 0;  ///< 0: there is no room for more storages.
    std::uint64_t bytes = 0;
    bool is_new = false;
    bool resized = false;  ///< Since it was last seen.
  };

  /// Returns the number of a storage that is alive.
  Known find_or_add(const c10::Storage& storage) {
    c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
    const std::uint64_t bytes = bytes_of(*impl);
    const auto found = storages_.find(impl);
    if (found != storages_.end()) {
      const bool resized = found->second.bytes != bytes;
      if (found->second.counted) live_bytes_ += bytes - found->second.bytes;
      found->second.bytes = bytes;
      return {found->second.number, bytes, false, resized};
    }
    if (storages_.size() >= kMost) return {};
    ++count_;
    const bool counted = storage.device().type() != c10::DeviceType::Meta;
    storages_.emplace(impl, Entry{storage.getWeakStorageImpl(), count_, bytes, counted});
    if (counted) live_bytes_ += bytes;
    return {count_, bytes, true, false};
  }

  /// Calls `visit(number)` for each storage that has ended since the last call, and removes it.
  /// Moves the weak references to `dropped`: dropping one may take the GIL.
  template <typename Visit>
  void take_ended(std::vector<Weak>& dropped, Visit visit) {
    for (auto at = storages_.begin(); at != storages_.end();) {
      if (!at->second.weak.expired()) {
        ++at;
        continue;
      }
      visit(at->second.number);
      if (at->second.counted) live_bytes_ -= at->second.bytes;
      dropped.push_back(std::move(at->second.weak));
      at = storages_.erase(at);
    }
  }

  void clear(std::vector<Weak>& dropped) {
    for (auto& [impl, entry] : storages_) dropped.push_back(std::move(entry.weak));
    storages_.clear();
    count_ = 0;
    live_bytes_ = 0;
  }

  /// The size of all storages whose end has not been seen, without those that have no memory.
  std::uint64_t live_bytes() const { return live_bytes_; }

 private:
  // A sweep looks at all of them.
  static constexpr std::size_t kMost = 32768;

  struct Entry {
    Weak weak;
    std::uint32_t number;
    std::uint64_t bytes;
    bool counted;
  };

  /// Returns 0 for a symbolic size.
  static std::uint64_t bytes_of(const c10::StorageImpl& storage) {
    const auto bytes = storage.sym_nbytes().maybe_as_int();
    return bytes && *bytes > 0 ? static_cast<std::uint64_t>(*bytes) : 0;
  }

  std::unordered_map<const c10::StorageImpl*, Entry> storages_;
  std::uint32_t count_ = 0;
  std::uint64_t live_bytes_ = 0;
};

}  // namespace optrace_ops
