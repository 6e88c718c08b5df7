#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// Finds branches that land after the first byte of a function's entry, where a 5-byte jump must
/// not be placed. One pass over all code collects the candidates: bytes that could be a near branch
/// (rel32) to such a place. A candidate is decoded only when its function is queried. Short
/// branches (rel8) are searched for around each entry. Jump tables are not followed: their targets
/// lie after the code that reads them, and so after the entry.
class BranchTargets {
 public:
  /// Searches all code of `module`. Takes about 0.1 s for the 274 MB of libtorch_cpu.
  static BranchTargets search(const ModuleSymbols& module);

  /// Restores a result of search() that to_bytes() has serialized for a cache. Returns nullopt if
  /// the bytes are corrupt or of another version.
  static std::optional<BranchTargets> from_bytes(std::span<const std::byte> bytes);
  std::string to_bytes() const;

  /// Returns true if a branch lands, or may land, in bytes 1 to 4 of the function at `entry`.
  bool any_in(const ModuleSymbols& module, std::uint64_t entry) const;

 private:
  /// A place in the code that is a branch if an instruction ends there.
  struct Candidate {
    std::uint64_t target;
    std::uint64_t end;
  };
  std::vector<Candidate> candidates_;  ///< Sorted by target.
};

/// Size in bytes of the jump that patches an entry.
constexpr std::uint64_t kJumpSize = 5;

}  // namespace optrace
