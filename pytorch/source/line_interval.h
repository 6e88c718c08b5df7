#pragma once

// A part of the installed report reader, so it is C++17.

#include <cstdint>

namespace optrace {

/// The lines among which an approximate line lies: both included, from 1; both 0 if no bound is
/// known.
struct LineInterval {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};
inline bool operator==(const LineInterval& left, const LineInterval& right) {
  return left.first == right.first && left.last == right.last;
}

}  // namespace optrace
