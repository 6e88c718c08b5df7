#pragma once

namespace optrace::agent {

// Text is changing, or the dynamic linker lists the loaded modules. A child forked meanwhile would
// contain probes that it has no record of, or would wait for ever for the linker's lock, so a fork
// waits, except in a signal handler on the patching thread.

/// Waits until no other thread changes text. Returns false if the calling thread did so already;
/// only the caller that got true calls end_patching().
bool begin_patching();

/// Returns false if a thread changes text, the calling one included.
bool try_patching();

/// Tries for about a second, for a caller that may hold a lock of the dynamic linker, for which a
/// thread that changes text may wait.
bool try_patching_for_long();

void end_patching();

class Patching {
 public:
  Patching() : begun_(begin_patching()) {}
  ~Patching() {
    if (begun_) end_patching();
  }
  Patching(const Patching&) = delete;
  Patching& operator=(const Patching&) = delete;

 private:
  bool begun_;
};

}  // namespace optrace::agent
