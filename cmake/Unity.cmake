# OPTRACE_UNITY compiles up to 24 sources of a target together, so that their headers are read once.
# Two sources of a target then can't use the same name for different things in unnamed namespaces.
option(OPTRACE_UNITY "Compile several sources of a target together" OFF)

function(optrace_unite_sources)
  if(NOT OPTRACE_UNITY)
    return()
  endif()
  set(largest_unit 24)
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    list(LENGTH sources count)
    math(EXPR units "(${count} + ${largest_unit} - 1) / ${largest_unit}")
    math(EXPR size "(${count} + ${units} - 1) / ${units}")
    # setup/clang-tidy.py checks the file that includes the sources.
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size}
                          UNITY_BUILD_CODE_BEFORE_INCLUDE
                          "// NOLINTNEXTLINE(bugprone-suspicious-include)")
    # GCC takes the included sources for headers, whose types should not depend on unnamed namespaces.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endforeach()
endfunction()
