#pragma once

#include <cstdint>

namespace optrace::agent {

/// What a Python function or builtin is called; `text` is the name, then the file.
struct PythonFunctionName {
  const char* text;
  std::uint32_t name_size;
  std::uint32_t file_size;
  std::uint32_t first_line;
};

/// As optrace_agent_python.
int set_python_events(bool on);

/// The functions that events name, by id from 0. Ids stay for the life of the process.
std::uint32_t python_function_count();
const PythonFunctionName& python_function(std::uint32_t id);

}  // namespace optrace::agent
