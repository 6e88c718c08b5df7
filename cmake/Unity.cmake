# OPTRACE_UNITY compiles the sources of each folder together, so each header is read once for
# a folder. Two sources of a folder then can't use the same name for different things in unnamed namespaces.
# A folder of many sources makes several units, so that several cores compile them.
option(OPTRACE_UNITY "Compile the sources of each folder together" OFF)

function(optrace_unite_sources)
  if(NOT OPTRACE_UNITY)
    return()
  endif()
  set(largest_unit 16)
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    set(groups "")
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
      cmake_path(GET path PARENT_PATH group)
      string(MAKE_C_IDENTIFIER ${group} group)
      list(APPEND groups ${group})
      list(APPEND members_of_${group} ${path})
    endforeach()
    list(REMOVE_DUPLICATES groups)
    foreach(group IN LISTS groups)
      list(LENGTH members_of_${group} count)
      math(EXPR units "(${count} + ${largest_unit} - 1) / ${largest_unit}")
      math(EXPR size "(${count} + ${units} - 1) / ${units}")
      set(index 0)
      foreach(path IN LISTS members_of_${group})
        math(EXPR unit "${index} / ${size}")
        math(EXPR index "${index} + 1")
        set_source_files_properties(${path} TARGET_DIRECTORY ${target}
                                    PROPERTIES UNITY_GROUP ${group}_${unit})
      endforeach()
      unset(members_of_${group})
    endforeach()
    # setup/clang-tidy.py checks the file that includes the sources.
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP
                          UNITY_BUILD_CODE_BEFORE_INCLUDE
                          "// NOLINTNEXTLINE(bugprone-suspicious-include)")
    # GCC takes the included sources for headers, whose types should not depend on unnamed namespaces.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endforeach()
endfunction()
