#pragma once

#include <pthread.h>

namespace optrace::emulated {

/// Holds a mutex across fork(), so that a child never gets it locked by a thread that it hasn't
/// got. Such mutexes are never taken while another one is held, so that fork() may take them in any
/// order.
template <auto& kMutex>
struct HeldAcrossFork {
  HeldAcrossFork() {
    pthread_atfork([] { kMutex.lock(); }, [] { kMutex.unlock(); }, [] { kMutex.unlock(); });
  }
};

}  // namespace optrace::emulated
