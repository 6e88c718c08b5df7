#pragma once

namespace optrace::agent {

/// Whether the reader of the shared region wants recording to stop, or a plan to be placed.
bool reader_wants_something();

/// As optrace_agent_serve.
int serve_reader();

/// Tells the reader of the modules that the thread has loaded, and places the plans that it has for
/// them: waits for those, where they may call torch, for two seconds at most, and never for a
/// reader whose heartbeat has stood still for one.
void tell_loaded_modules();

}  // namespace optrace::agent
