#pragma once

#include <cstdint>

namespace optrace {

/// Controls if a frame is part of a report that does not show everything.
enum class Visibility : std::uint8_t {
  always,      ///< A step of an op's path, or work done for it.
  if_leading,  ///< Shown only if it leads to a frame that is always shown; otherwise bookkeeping.
  hidden,      ///< Passes calls on: replaced by the frames below it.
};

}  // namespace optrace
