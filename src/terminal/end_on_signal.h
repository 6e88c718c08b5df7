#pragma once

#include "platform/process/interrupt.h"

namespace optrace {

/// While it lives, and no InterruptGuard does, SIGINT, SIGTERM and SIGHUP end the process at once,
/// with exit status 128 + signal. Programs with a process group of their own (ChildProcess) are
/// killed, and what OutputFile has not finished and each PrivateFolder are removed.
class EndOnSignal {
 public:
  EndOnSignal();

 private:
  HandledSignals handled_;
};

}  // namespace optrace
