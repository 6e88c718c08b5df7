#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace optrace {

/// A set that a signal handler may read while any thread changes it. `T()` is never in it.
template <typename T, std::size_t kMost>
class SignalSafeSet {
 public:
  /// A value beyond `kMost` is not added.
  void add(T value) noexcept { replace(T(), value); }
  void remove(T value) noexcept { replace(value, T()); }

  /// Calls `visit` with each value.
  template <typename Visit>
  void for_each(const Visit& visit) const noexcept {
    for (const std::atomic<T>& place : places_)
      if (const T value = place.load(); value != T()) visit(value);
  }

 private:
  static_assert(std::atomic<T>::is_always_lock_free);

  void replace(T from, T to) noexcept {
    for (std::atomic<T>& place : places_)
      if (T expected = from; place.compare_exchange_strong(expected, to)) return;
  }

  std::array<std::atomic<T>, kMost> places_{};
};

}  // namespace optrace
