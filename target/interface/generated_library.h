#pragma once

#include <cstddef>
#include <string_view>

namespace optrace {

/// Returns true for the path of a library that Inductor compiled. It is named by a hash of its
/// source, which is `c` and 51 letters of base 32, and its folder by the second and third of these:
/// `6m/c6mho….so` (torch/_inductor/codecache.py: code_hash, get_path). In an unpacked package of
/// AOTInductor it is in a folder below `data/aotinductor`. Such a library needs libtorch only if it
/// calls it.
inline bool is_generated_library(std::string_view path) {
  constexpr std::size_t kHash = 52;
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos || slash < 2 || path.size() - slash - 1 <= kHash ||
      path[slash + 1 + kHash] != '.') {
    return false;
  }
  const char* const hash = path.data() + slash + 1;
  for (std::size_t i = 0; i < kHash; ++i)
    if ((hash[i] < 'a' || hash[i] > 'z') && (hash[i] < '2' || hash[i] > '7')) return false;
  const bool in_cache = path[slash - 2] == hash[1] && path[slash - 1] == hash[2];
  return hash[0] == 'c' && (in_cache || path.find("/data/aotinductor/") != std::string_view::npos);
}

}  // namespace optrace
