#pragma once

#include <cerrno>
#include <cstdint>

#include "target/recorder/agent_functions.h"

namespace optrace_ops {

/// While it lives, nothing is recorded of the calling thread, so that a recorder's own calls are no
/// part of the recording. Preserves errno. Pauses may be nested. Requires an agent.
class RecordingPause {
 public:
  RecordingPause() : errno_(errno), paused_(agent.pause_thread()) {}
  ~RecordingPause() {
    agent.resume_thread(paused_);
    errno = errno_;
  }
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

  /// Records an event in spite of the pause, which must be the outermost one of the thread.
  void note(std::uint32_t kind, std::uint32_t record, std::uint64_t number, std::uint64_t thread) {
    agent.resume_thread(paused_);
    agent.note(kind, record, number, thread);
    paused_ = agent.pause_thread();
  }

 private:
  int errno_;
  std::uint32_t paused_;
};

/// The body of a C function of a recorder: calls `function` while recording is paused. Returns its
/// result, -EINVAL without an agent, or -ENOMEM if it throws.
template <typename Pause = RecordingPause, typename Function>
int without_exceptions(Function function) {
  if (!has_agent.load()) return -EINVAL;
  const Pause pause;
  try {
    return function();
  } catch (...) {
    return -ENOMEM;
  }
}

}  // namespace optrace_ops
