# Enables C++. Without a compiler, the error names everything that is needed to build optrace.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  file(STRINGS ${CMAKE_SOURCE_DIR}/setup/packages.txt packages REGEX "^[^#]")
  list(JOIN packages " " packages)
  message(FATAL_ERROR "optrace can't be built: there is no C++ compiler. These Debian packages are "
                      "all that a build needs (on other systems, the same programs and libraries "
                      "with their headers):\n  apt-get install ${packages}\n")
endif()
enable_language(CXX)
