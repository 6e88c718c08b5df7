# Finds elfutils, for reading ELF files and call frame information. Defines ElfUtils::elf and
# ElfUtils::dw.
include(FindPackageHandleStandardArgs)
find_path(ElfUtils_INCLUDE_DIR elfutils/libdw.h)
find_library(ElfUtils_elf_LIBRARY elf)
find_library(ElfUtils_dw_LIBRARY dw)
find_package_handle_standard_args(ElfUtils DEFAULT_MSG
  ElfUtils_elf_LIBRARY ElfUtils_dw_LIBRARY ElfUtils_INCLUDE_DIR)
if(ElfUtils_FOUND)
  foreach(part elf dw)
    if(NOT TARGET ElfUtils::${part})
      add_library(ElfUtils::${part} UNKNOWN IMPORTED)
      set_target_properties(ElfUtils::${part} PROPERTIES
        IMPORTED_LOCATION ${ElfUtils_${part}_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${ElfUtils_INCLUDE_DIR})
    endif()
  endforeach()
endif()
