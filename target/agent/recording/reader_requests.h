#pragma once

namespace optrace::agent {

/// Returns true if the reader of the shared region has asked to stop recording or to place a plan.
bool reader_wants_something();

/// Implements optrace_agent_serve.
int serve_reader();

/// Reports the modules that the thread has loaded to the reader and places the plans that it has
/// for them. If the modules may call PyTorch, waits for those plans for up to two seconds, or not
/// at all if the reader's heartbeat has not changed for one second.
void tell_loaded_modules();

}  // namespace optrace::agent
