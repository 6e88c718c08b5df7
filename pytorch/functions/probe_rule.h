#pragma once

#include <cstdint>
#include <string_view>

namespace optrace {

/// The part of a table's row that selects functions for probes, by their mangled or C names. The
/// row's pattern of qualified names tells where to look.
struct ProbeRule {
  enum class Language : std::uint8_t {
    none,  ///< The row's functions have no probes.
    c,     ///< C functions whose names match the pattern.
    /// C++ functions. Of a pattern such as `at::native::*`, the namespace or class around the
    /// function counts, at any depth: what is below it in the pattern does not. `at::%` stands for
    /// the functions directly in `at`, and `THP*` for functions at global scope.
    cpp
  };
  Language language = Language::none;
  std::string_view part;  ///< Must also occur in the mangled name; empty: no condition.
};

inline constexpr ProbeRule kCProbes{ProbeRule::Language::c, {}};
inline constexpr ProbeRule kCppProbes{ProbeRule::Language::cpp, {}};
constexpr ProbeRule probes_with(std::string_view part) {
  return {ProbeRule::Language::cpp, part};
}

}  // namespace optrace
