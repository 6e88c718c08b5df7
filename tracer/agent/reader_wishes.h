#pragma once

namespace optrace::agent {

/// Whether the reader of the shared region wants recording to stop, or a plan to be placed.
bool reader_wants_something();

/// As optrace_agent_serve.
int serve_reader();

}  // namespace optrace::agent
