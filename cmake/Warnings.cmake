# Every target of the project links optrace_warnings; a warning is an error. -Wnull-dereference is
# left out: g++ 12 gives it for std::istreambuf_iterator itself.
add_library(optrace_warnings INTERFACE)
target_compile_options(optrace_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Woverloaded-virtual)
