# OPTRACE_UNITY compiles the sources of each folder together, so each header is read once for
# a folder. Two sources of a folder then can't use the same name for different things in unnamed namespaces.
option(OPTRACE_UNITY "Compile the sources of each folder together" OFF)

function(optrace_unite_sources)
  if(NOT OPTRACE_UNITY)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
      cmake_path(GET path PARENT_PATH group)
      string(MAKE_C_IDENTIFIER ${group} group)
      set_source_files_properties(${path} TARGET_DIRECTORY ${target}
                                  PROPERTIES UNITY_GROUP ${group})
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # GCC takes the included sources for headers, whose types should not depend on unnamed namespaces.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endforeach()
endfunction()
