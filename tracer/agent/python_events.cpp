#include "tracer/agent/python_events.h"

#include <cerrno>

namespace optrace::agent {

int set_python_events(bool) {
  return -ENOSYS;
}

std::uint32_t python_function_count() {
  return 0;
}

const PythonFunctionName& python_function(std::uint32_t) {
  static const PythonFunctionName none{"", 0, 0, 0};
  return none;
}

}  // namespace optrace::agent
