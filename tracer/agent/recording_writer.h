#pragma once

#include <cstdint>

#include "tracer/agent/placed_plan.h"
#include "tracer/agent/recording_format.h"

namespace optrace::agent {

/// What a recording holds beside the event buffers.
struct RecordingParts {
  recording::Header header;
  const PlacedPlan* plans;
  std::uint32_t plan_count;
  const recording::InitialFrame* initial_frames;  ///< Of the thread that started the recording.
  std::uint32_t initial_count;
  std::uint32_t initial_thread;
};

/// Writes a raw recording, after collect(). 0, or -errno of the write that failed.
int write_recording(int file, const RecordingParts& parts);

}  // namespace optrace::agent
