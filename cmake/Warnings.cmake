# Every target of the project links optrace_warnings. Warnings are errors unless
# OPTRACE_WARNINGS_ARE_ERRORS is OFF, which is for installing optrace with any compiler.
# -Wnull-dereference is left out: g++ 12 reports it for std::istreambuf_iterator itself.
option(OPTRACE_WARNINGS_ARE_ERRORS "Stop at a compiler's warning" ON)
add_library(optrace_warnings INTERFACE)
target_compile_options(optrace_warnings INTERFACE
  -Wall -Wextra -Wpedantic $<$<BOOL:${OPTRACE_WARNINGS_ARE_ERRORS}>:-Werror> -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Woverloaded-virtual)
