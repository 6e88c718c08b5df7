#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include "target/recorder/fingerprint.h"

namespace optrace_ops {

/// Numbers the writes to storages by ops of all threads, so that a call can tell whether its inputs
/// are as they were. Some storages share a number: a write to one of them counts for all.
class Writes {
 public:
  static void add(const c10::StorageImpl* storage) {
    last_[place_of(storage)].store(count_.fetch_add(1, std::memory_order_relaxed) + 1,
                                   std::memory_order_relaxed);
  }
  /// Returns the number of the last write.
  static std::uint64_t last(const c10::StorageImpl* storage) {
    return last_[place_of(storage)].load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kPlaces = 1 << 16;

  static std::size_t place_of(const c10::StorageImpl* storage) {
    constexpr unsigned kAlignment = 4;
    const auto address = reinterpret_cast<std::uintptr_t>(storage) >> kAlignment;
    return (address ^ (address >> 16U)) % kPlaces;
  }

  static inline std::atomic<std::uint64_t> count_{0};
  static inline std::atomic<std::uint64_t> last_[kPlaces]{};
};

/// The tensors that a call gets: which they are, and which version of their data. Valid as long as
/// they are.
class CallInputs {
 public:
  static constexpr std::size_t kMost = 4;

  /// `offset` is that of the tensor in its storage.
  void add(const c10::TensorImpl& tensor, std::int64_t offset) {
    const c10::Storage& storage = tensor.unsafe_storage();
    // Memory that is not resizable may belong to NumPy or to another process, which write to it
    // without an op.
    if (count_ == kMost || !storage || !storage.resizable()) {
      known_ = false;
      return;
    }
    const c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
    storages_[count_++] = &storage;
    identity_.add(reinterpret_cast<std::uintptr_t>(impl));
    identity_.add(reinterpret_cast<std::uintptr_t>(impl->data()));
    identity_.add(static_cast<std::uint64_t>(offset));
    identity_.add(Writes::last(impl));
    const c10::VariableVersion& version = tensor.version_counter();
    identity_.add(version.enabled() ? version.current_version() : 0);
  }

  /// Records something that the identity does not cover.
  void add_unknown() { known_ = false; }

  /// Returns true if the identity covers all inputs, and there are some.
  bool known() const { return known_ && count_ != 0; }

 private:
  friend class SeenCalls;

  Fingerprint identity_;
  const c10::Storage* storages_[kMost] = {};
  std::size_t count_ = 0;
  bool known_ = true;
};

/// The calls of one thread whose inputs may still exist. A weak reference keeps the address of a
/// storage from being used again, but not its memory.
class SeenCalls {
 public:
  /// Returns true if a call with this fingerprint had the same inputs, unchanged, in the same
  /// recording. The inputs must be known.
  bool contains_or_add(const Fingerprint& call, const CallInputs& inputs, std::uint32_t recording) {
    Fingerprint key = call;
    key.add(inputs.identity_.low());
    key.add(inputs.identity_.high());
    Seen* const set = seen_[key.low() % kSets];
    for (std::size_t i = 0; i < kWays; ++i)
      if (set[i].recording == recording && set[i].key == key) return true;
    // The older one that may still be found, or the first that can't.
    Seen* replaced = &set[kWays - 1];
    for (std::size_t i = kWays; i-- > 0;)
      if (set[i].recording != recording || set[i].any_expired()) replaced = &set[i];
    for (; replaced != set; --replaced) std::swap(*replaced, *(replaced - 1));
    set->key = key;
    set->recording = recording;
    for (std::size_t i = 0; i < CallInputs::kMost; ++i)
      set->storages[i] =
          i < inputs.count_ ? inputs.storages_[i]->getWeakStorageImpl() : Seen::nothing();
    return false;
  }

 private:
  static constexpr std::size_t kSets = 512;
  static constexpr std::size_t kWays = 2;

  struct Seen {
    using Storage = c10::weak_intrusive_ptr<c10::StorageImpl>;
    static Storage nothing() { return Storage(c10::intrusive_ptr<c10::StorageImpl>()); }

    bool any_expired() const {
      for (const Storage& storage : storages)
        if (storage._unsafe_get_target() != nullptr && storage.expired()) return true;
      return false;
    }

    Fingerprint key;
    std::uint32_t recording = 0;
    Storage storages[CallInputs::kMost] = {nothing(), nothing(), nothing(), nothing()};
  };

  Seen seen_[kSets][kWays];
};

}  // namespace optrace_ops
