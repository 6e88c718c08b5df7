#pragma once

#include <pthread.h>

namespace optrace_ops {

/// From the first call on, the lock that `kGet` returns is held during fork(), so that a child
/// never inherits it locked by a thread that does not exist there. Such a lock is never taken while
/// another one is held, so fork() may take them in any order.
template <auto kGet>
void hold_across_forks() {
  static const int result =
      pthread_atfork([] { kGet().lock(); }, [] { kGet().unlock(); }, [] { kGet().unlock(); });
  static_cast<void>(result);
}

}  // namespace optrace_ops
