#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace optrace {

/// Names the bits of a raw DispatchKeySet (c10/core/DispatchKeySet.h): one for each backend, lowest
/// first, then one for each functionality, in order of rising priority.
class KeyNames {
 public:
  struct Functionality {
    std::string name;
    std::vector<std::string> of_backend;  ///< Empty if all backends share the key.
  };

  KeyNames() = default;
  /// There are at most 64 backends and functionalities together.
  KeyNames(unsigned backends, std::vector<Functionality> functionalities);

  bool known() const { return !functionalities_.empty(); }

  /// Returns all keys of a set, sorted by dispatch priority, highest first.
  std::vector<std::string> all(std::uint64_t set) const;

  /// Returns those of a set's keys that the dispatcher tries one after the other: for a
  /// functionality with a key for each backend, only the key of the backend with the highest
  /// priority. `all`: the names of all keys of the set.
  std::vector<std::string> candidates(const std::vector<std::string>& all) const;

  /// Returns true if a register value may be a DispatchKeySet.
  bool plausible(std::uint64_t set) const;

  /// Returns the one of two register values that may be a DispatchKeySet, if only one may be.
  std::optional<std::uint64_t> only_set(std::uint64_t first, std::uint64_t second) const;

 private:
  unsigned backends_ = 0;
  std::vector<Functionality> functionalities_;
};

}  // namespace optrace
