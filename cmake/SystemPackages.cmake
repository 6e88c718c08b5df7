# Finds what optrace is built from. If something is missing, one error names the Debian packages of
# everything that is.
#
# With OPTRACE_PORTABLE, the programs link static libraries where Debian has them, so that they need
# little more than glibc on another distribution. setup/make-wheel.py puts the rest into the wheel.
option(OPTRACE_PORTABLE "Link static libraries where there are some" OFF)

set(_missing_packages "")
# need(PACKAGE FOUND): notes the Debian package PACKAGE if the variable FOUND is false.
macro(need package found)
  if(NOT ${found})
    list(APPEND _missing_packages ${package})
  endif()
endmacro()

find_package(fmt QUIET)
need(libfmt-dev fmt_FOUND)
# fmt_library.cpp is for the version of Debian 12.
if(OPTRACE_PORTABLE AND NOT fmt_VERSION MATCHES "^9\\.")
  message(STATUS "OPTRACE_PORTABLE needs fmt 9; libraries are linked dynamically")
  set(OPTRACE_PORTABLE OFF)
endif()

set(_shared_suffixes ${CMAKE_FIND_LIBRARY_SUFFIXES})
find_package(CLI11 QUIET)
need(libcli11-dev CLI11_FOUND)
find_package(nlohmann_json QUIET)
need(nlohmann-json3-dev nlohmann_json_FOUND)
find_package(zycore QUIET)
need(libzycore-dev zycore_FOUND)
find_package(zydis QUIET)
need(libzydis-dev zydis_FOUND)
find_package(ElfUtils QUIET)
need(libdw-dev ElfUtils_FOUND)
find_package(LibClang QUIET)
need(libclang-19-dev LibClang_FOUND)
find_package(zstd QUIET)
need(libzstd-dev zstd_FOUND)
find_package(LibLZMA QUIET)
need(liblzma-dev LibLZMA_FOUND)
find_program(XZ_PROGRAM xz)
need(xz-utils XZ_PROGRAM)

if(OPTRACE_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a ${_shared_suffixes})
endif()
find_package(ZLIB QUIET)
need(zlib1g-dev ZLIB_FOUND)
find_package(xxHash QUIET)
need(libxxhash-dev xxHash_FOUND)
find_package(SQLite3 QUIET)
need(libsqlite3-dev SQLite3_FOUND)
set(CURSES_NEED_NCURSES TRUE)
set(CURSES_NEED_WIDE TRUE)
find_package(Curses QUIET)
need(libncurses-dev CURSES_FOUND)
find_package(Libiberty QUIET)
need(libiberty-dev Libiberty_FOUND)
find_package(yaml-cpp QUIET)
need(libyaml-cpp-dev yaml-cpp_FOUND)

if(OPTRACE_PYTHON_MODULE)
  find_package(Python COMPONENTS Interpreter Development.Module QUIET)
  need(python3-dev Python_Development.Module_FOUND)
  find_package(pybind11 2.10 CONFIG QUIET)
  need(pybind11-dev pybind11_FOUND)
endif()

if(_missing_packages)
  list(JOIN _missing_packages " " _missing_packages)
  message(FATAL_ERROR "optrace can't be built: Debian packages are missing (on other systems, the "
                      "same libraries with their headers). Run this, then try again:\n"
                      "  apt-get install ${_missing_packages}\n")
endif()

# zstd::libzstd, as newer versions of zstd define it themselves.
if(NOT TARGET zstd::libzstd)
  add_library(zstd::libzstd INTERFACE IMPORTED)
  if(OPTRACE_PORTABLE OR NOT TARGET zstd::libzstd_shared)
    target_link_libraries(zstd::libzstd INTERFACE zstd::libzstd_static)
  else()
    target_link_libraries(zstd::libzstd INTERFACE zstd::libzstd_shared)
  endif()
endif()

# What liboptrace.so and the Python module are linked with.
set(OPTRACE_SHARED_LINK_OPTIONS LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map)
if(OPTRACE_PORTABLE)
  # gc-sections drops code of libstdc++ that nothing calls, and with it arc4random() of glibc 2.36.
  list(APPEND OPTRACE_SHARED_LINK_OPTIONS -static-libstdc++ LINKER:--gc-sections)
  # Debian has CMake targets for the shared libraries of these two only.
  find_library(yaml-cpp_STATIC_LIBRARY NAMES libyaml-cpp.a REQUIRED)
  set_target_properties(yaml-cpp PROPERTIES IMPORTED_LOCATION_NONE ${yaml-cpp_STATIC_LIBRARY})
  add_library(optrace_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_library.cpp)
  set(_fmt ${CMAKE_BINARY_DIR}/cmake/libfmt.a)
  set_target_properties(optrace_fmt PROPERTIES
    OUTPUT_NAME fmt ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cmake)
  target_include_directories(optrace_fmt SYSTEM PRIVATE
    $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(optrace_fmt PRIVATE FMT_SHARED)
  set_target_properties(fmt::fmt PROPERTIES IMPORTED_LOCATION_NONE ${_fmt})
  add_dependencies(fmt::fmt optrace_fmt)
  find_library(TINFO_LIBRARY tinfo)
  if(TINFO_LIBRARY)
    list(APPEND CURSES_LIBRARIES ${TINFO_LIBRARY})
  endif()
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES ${_shared_suffixes})
