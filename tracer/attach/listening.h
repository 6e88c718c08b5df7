#pragma once

#include <memory>

#include <sys/types.h>

#include "tracer/launch/program_socket.h"

namespace optrace {

// Processes that `optrace attach` may come to without ptrace listen in the cache's folder
// `listening`: each has a socket there, named by its PID as it knows itself
// (python/optrace/_listen.py). Only this user can enter the folder.

/// A connection to `process`, or null when it does not listen there, or has more connections
/// waiting already than it takes. Nothing is waited for. Sockets that nobody listens at any more
/// are removed on the way.
std::unique_ptr<ProgramConnection> connect_to_listening(pid_t process);

}  // namespace optrace
