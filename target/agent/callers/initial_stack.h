#pragma once

#include <cstdint>

#include "target/interface/recording_format.h"

namespace optrace::agent {

constexpr std::uint32_t kMaxInitialFrames = 4096;

/// Stores the live frames of the calling thread, innermost first and without the agent's own. Omits
/// a frame whose return slot does not hold its return address (wrong unwind information, or a
/// signal handler's frame). Returns the number of frames stored.
std::uint32_t take_initial_stack(recording::InitialFrame* frames, std::uint32_t capacity);

}  // namespace optrace::agent
