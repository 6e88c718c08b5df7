#pragma once

#include "target/recorder/fork_lock.h"

namespace optrace::emulated {

/// Holds a mutex during fork(), as hold_across_forks() does, from the time when the library is
/// loaded.
template <auto& kMutex>
struct HeldAcrossFork {
  HeldAcrossFork() { optrace_ops::hold_across_forks<&HeldAcrossFork::mutex>(); }

 private:
  static auto& mutex() { return kMutex; }
};

}  // namespace optrace::emulated
