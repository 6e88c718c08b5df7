#pragma once

/// Marks what lib/optrace/liboptrace.so exports (cmake/SharedCode.cmake): the programs' main
/// functions, and what the Python module calls.
#define OPTRACE_EXPORTED __attribute__((visibility("default")))
