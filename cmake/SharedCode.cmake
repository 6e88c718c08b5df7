# The code of optrace's programs, and of its Python module except for what calls Python, is in one
# shared library, so that a package has it once.
if(NOT OPTRACE_SANITIZE)
  add_library(optrace_shared SHARED)
  set_target_properties(optrace_shared PROPERTIES
    OUTPUT_NAME optrace LIBRARY_OUTPUT_DIRECTORY ${OPTRACE_LIB_DIR} BUILD_WITH_INSTALL_RPATH ON)
  target_link_libraries(optrace_shared PRIVATE optrace_warnings)
  # no-undefined: a function of libclang that platform/libclang/libclang_loader.cpp lacks is an error here.
  target_link_options(optrace_shared PRIVATE ${OPTRACE_SHARED_LINK_OPTIONS} LINKER:--no-undefined)
  if(OPTRACE_PORTABLE)
    set(libc_variables ${CMAKE_SOURCE_DIR}/cmake/libc_variables.cpp)
    target_sources(optrace_shared PRIVATE ${libc_variables})
    # Its variables have the names of <cstdio>'s.
    set_source_files_properties(${libc_variables} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  install(TARGETS optrace_shared LIBRARY DESTINATION lib/optrace)
endif()

# optrace_program(NAME MAIN FUNCTION SOURCES SOURCE... LIBRARIES LIBRARY...)
#
# Adds a program whose main function is FUNCTION of platform/programs.h, which is in one of the
# sources. With sanitizers, the program contains its code, so that a test builds no more than it needs.
function(optrace_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "MAIN" "SOURCES;LIBRARIES")
  add_executable(${name} ${CMAKE_SOURCE_DIR}/platform/program_main.cpp)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE OPTRACE_MAIN=${program_MAIN})
  target_link_libraries(${name} PRIVATE optrace_warnings)
  if(OPTRACE_SANITIZE)
    set(code ${name})
  else()
    set(code optrace_shared)
    target_link_libraries(${name} PRIVATE optrace_shared)
    target_link_options(${name} PRIVATE LINKER:--as-needed)
  endif()
  target_sources(${code} PRIVATE ${program_SOURCES})
  target_link_libraries(${code} PRIVATE ${program_LIBRARIES})
endfunction()
