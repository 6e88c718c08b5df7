# Finds libclang, the stable C interface of clang, newest version first. Defines LibClang::LibClang
# and LibClang_RESOURCE_INCLUDE (the folder of clang's builtin headers).
include(FindPackageHandleStandardArgs)
foreach(version 21 20 19 18)
  list(APPEND _llvm_roots /usr/lib/llvm-${version})
endforeach()
find_path(LibClang_INCLUDE_DIR clang-c/Index.h HINTS ${_llvm_roots} PATH_SUFFIXES include)
find_library(LibClang_LIBRARY NAMES clang HINTS ${_llvm_roots} PATH_SUFFIXES lib)
if(LibClang_INCLUDE_DIR)
  file(GLOB _resource_candidates ${LibClang_INCLUDE_DIR}/../lib/clang/*/include)
  list(GET _resource_candidates 0 LibClang_RESOURCE_INCLUDE)
  file(REAL_PATH "${LibClang_RESOURCE_INCLUDE}" LibClang_RESOURCE_INCLUDE)
endif()
find_package_handle_standard_args(LibClang DEFAULT_MSG
  LibClang_LIBRARY LibClang_INCLUDE_DIR LibClang_RESOURCE_INCLUDE)
if(LibClang_FOUND AND NOT TARGET LibClang::LibClang)
  add_library(LibClang::LibClang UNKNOWN IMPORTED)
  set_target_properties(LibClang::LibClang PROPERTIES
    IMPORTED_LOCATION ${LibClang_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LibClang_INCLUDE_DIR})
endif()
