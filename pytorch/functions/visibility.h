#pragma once

#include <cstdint>

namespace optrace {

/// Controls if a frame is part of a report that does not show everything.
enum class Shown : std::uint8_t {
  always,   ///< A step of an op's path, or work done for it.
  leading,  ///< Shown only if it leads to a frame that is always shown; otherwise bookkeeping.
  never,    ///< Plumbing: replaced by the frames below it.
};

}  // namespace optrace
