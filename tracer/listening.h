#pragma once

#include <filesystem>
#include <memory>

#include <sys/types.h>

#include "tracer/program_socket.h"

namespace optrace {

/// Where processes that `optrace attach` may come to without ptrace listen: each has a socket
/// there, named by its PID as it knows itself. Only this user can enter the folder. Throws
/// Error(failed) where none can be made.
std::filesystem::path listening_folder();

/// A connection to `process`, or null when it does not listen there.
std::unique_ptr<ProgramConnection> connect_to_listening(pid_t process);

}  // namespace optrace
