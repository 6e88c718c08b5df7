#pragma once

#include <memory>

#include <sys/types.h>

#include "tracer/connection/program_socket.h"

namespace optrace {

// Processes that `optrace attach` can reach without ptrace listen in the cache's folder
// `listening`: each has a socket there, named by the PID in its own namespace
// (python/optrace/_listen.py). Only this user can enter the folder.

/// Returns a connection to `process`, or null if it does not listen there or its queue of
/// connections is full. Does not wait. Removes sockets on which no process listens any more.
std::unique_ptr<ProgramConnection> connect_to_listening(pid_t process);

}  // namespace optrace
