#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tracer/elf/module_symbols.h"

namespace optrace {

/// Knows whether some branch of a module lands behind the first byte of a function's entry, where
/// a 5-byte jump must not be placed. The whole code is searched once for what could be a near
/// branch (rel32) to such a place; only candidates are decoded, when they are asked about. Short
/// branches (rel8) are looked for around each entry. Jump tables are not followed: their targets
/// lie behind the code that reads them, thus behind the entry.
class BranchTargets {
 public:
  /// Searches all code of `module`: about 0.1 s for libtorch_cpu's 274 MB.
  static BranchTargets search(const ModuleSymbols& module);

  /// What search() found, from and to bytes that are kept in a cache. Nothing when they are
  /// corrupt or of another version.
  static std::optional<BranchTargets> from_bytes(std::span<const std::byte> bytes);
  std::string to_bytes() const;

  /// True when a branch lands in bytes 1 to 4 of the function at `entry`, or may do so.
  bool any_in(const ModuleSymbols& module, std::uint64_t entry) const;

 private:
  /// A place in the code that would be a branch if an instruction ended there.
  struct Candidate {
    std::uint64_t target;
    std::uint64_t end;
  };
  std::vector<Candidate> candidates_;  ///< By target.
};

/// Bytes of a jump's patch.
constexpr std::uint64_t kJumpSize = 5;

}  // namespace optrace
