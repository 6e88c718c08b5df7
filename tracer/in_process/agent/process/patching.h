#pragma once

namespace optrace::agent {

// Text is changing, or the dynamic linker lists the loaded modules. A child forked meanwhile would
// contain probes that it has no record of, or would wait for ever for the linker's lock, so a fork
// waits, except in a signal handler on the patching thread.

/// Waits until no other thread changes text.
void begin_patching();

/// Returns false if a thread changes text, the calling one included.
bool try_patching();

void end_patching();

class Patching {
 public:
  Patching() { begin_patching(); }
  ~Patching() { end_patching(); }
  Patching(const Patching&) = delete;
  Patching& operator=(const Patching&) = delete;
};

}  // namespace optrace::agent
