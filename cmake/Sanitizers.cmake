# OPTRACE_SANITIZE=address,undefined builds the command and the unit tests with those sanitizers.
# The agent is never sanitized this way: it runs inside processes that are not.
set(OPTRACE_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= spells them")
add_library(optrace_sanitizers INTERFACE)
if(OPTRACE_SANITIZE)
  target_compile_options(optrace_sanitizers INTERFACE
    -fsanitize=${OPTRACE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(optrace_sanitizers INTERFACE -fsanitize=${OPTRACE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # A test calls code that it has put into memory: no type precedes it there. GCC defines the macro.
    target_compile_options(optrace_sanitizers INTERFACE
      -fno-sanitize=function -D__SANITIZE_ADDRESS__=1)
  endif()
endif()
