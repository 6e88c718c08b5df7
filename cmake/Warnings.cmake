# Every target of the project links optrace_warnings; a warning is an error, but for who only installs
# optrace, with whatever compiler. -Wnull-dereference is left out: g++ 12 gives it for
# std::istreambuf_iterator itself.
option(OPTRACE_WARNINGS_ARE_ERRORS "Stop at a compiler's warning" ON)
add_library(optrace_warnings INTERFACE)
target_compile_options(optrace_warnings INTERFACE
  -Wall -Wextra -Wpedantic $<$<BOOL:${OPTRACE_WARNINGS_ARE_ERRORS}>:-Werror> -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Woverloaded-virtual)
