#include "target/agent/process/fork_lock.h"

#include <atomic>

#include <dlfcn.h>
#include <pthread.h>

namespace optrace::agent {
namespace {

std::atomic<pthread_mutex_t*> mutex = nullptr;
// The mutex locked by the current fork. Only one thread forks at a time (see begin_patching).
pthread_mutex_t* held = nullptr;

}  // namespace

void wait_for_when_forking(const LoadedModule& module, std::uint64_t address) {
  const std::uint64_t place = module.bias + address;
  if (place < module.first || place > module.last || module.last - place < sizeof(*held) ||
      place % alignof(pthread_mutex_t) != 0) {
    return;
  }
  void* const pin = dlopen(module.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (pin != nullptr) {
    dlclose(pin);
    mutex = reinterpret_cast<pthread_mutex_t*>(place);  // NOLINT(performance-no-int-to-ptr)
  }
}

void lock_for_fork() {
  pthread_mutex_t* const current = mutex;
  if (current != nullptr && held == nullptr && pthread_mutex_lock(current) == 0) held = current;
}

void unlock_after_fork() {
  if (held != nullptr) {
    pthread_mutex_t* const locked = held;
    held = nullptr;
    pthread_mutex_unlock(locked);
  }
}

}  // namespace optrace::agent
