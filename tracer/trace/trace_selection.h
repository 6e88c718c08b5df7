#pragma once

#include <cstdint>
#include <string>

namespace optrace {

/// Selects what is counted; by default, everything.
struct TraceSelection {
  /// Ops by name, `aten::conv*` or `conv*`, where `*` matches any characters. Ops called by a
  /// matching op are included. Empty: all calls, inside and outside of ops.
  std::string ops{};
  /// Count only calls below Python functions of this module or package.
  std::string from_module{};
  std::uint64_t skip = 0;  ///< Number of outermost selected op calls to skip first.
  /// Number of op calls to count after that, until recording stops; 0: all.
  std::uint64_t count = 0;

  bool everything() const { return ops.empty() && from_module.empty() && skip == 0 && count == 0; }
  bool operator==(const TraceSelection&) const = default;
};

}  // namespace optrace
