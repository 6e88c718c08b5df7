#pragma once

#include <cstdint>

#include "tracer/in_process/agent/interface/recording_format.h"

namespace optrace::agent {

constexpr std::uint32_t kMaxInitialFrames = 4096;

/// Takes down the frames that are live on the calling thread, innermost first, without the agent's
/// own. A frame whose return slot does not hold its return address (the unwinder was led astray, or
/// a signal handler's) is left out. Returns how many there are.
std::uint32_t take_initial_stack(recording::InitialFrame* frames, std::uint32_t capacity);

}  // namespace optrace::agent
