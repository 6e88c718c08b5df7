#pragma once

#include "platform/exported.h"

namespace optrace {

// The main functions of the programs (platform/program_main.cpp).

OPTRACE_EXPORTED int command_main(int count, char** values);
OPTRACE_EXPORTED int index_worker_main(int count, char** values);
OPTRACE_EXPORTED int device_generator_main(int count, char** values);

}  // namespace optrace
