#pragma once

#include <pthread.h>

namespace optrace::emulated {

/// Holds a mutex during fork(), so that a child never inherits it locked by a thread that does not
/// exist there. Such a mutex is never locked while another one is held, so fork() may lock them in
/// any order.
template <auto& kMutex>
struct HeldAcrossFork {
  HeldAcrossFork() {
    pthread_atfork([] { kMutex.lock(); }, [] { kMutex.unlock(); }, [] { kMutex.unlock(); });
  }
};

}  // namespace optrace::emulated
