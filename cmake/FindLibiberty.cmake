# Finds GNU libiberty, for its demangler (the one that gdb uses). Defines Libiberty::Libiberty.
include(FindPackageHandleStandardArgs)
find_path(Libiberty_INCLUDE_DIR libiberty/demangle.h)
find_library(Libiberty_LIBRARY NAMES iberty)
find_package_handle_standard_args(Libiberty DEFAULT_MSG Libiberty_LIBRARY Libiberty_INCLUDE_DIR)
if(Libiberty_FOUND AND NOT TARGET Libiberty::Libiberty)
  add_library(Libiberty::Libiberty UNKNOWN IMPORTED)
  set_target_properties(Libiberty::Libiberty PROPERTIES
    IMPORTED_LOCATION ${Libiberty_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${Libiberty_INCLUDE_DIR})
endif()
