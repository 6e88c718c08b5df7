# Makes a C++ source of the page's scripts and style (report/formats/html/html_page_parts.h). Run with
# cmake -D SCRIPT=page.js -D OUTPUT=FILE -P embed.cmake. The modules that SCRIPT imports, and those
# that they import, are put before it, without the words `import` and `export`. So a name may be
# declared at the top of only one of them, and imports may not rename.

cmake_minimum_required(VERSION 3.25)

include(${CMAKE_CURRENT_LIST_DIR}/../../../../present/embedded_text.cmake)

# Adds a module to `script`, its text without modules, and to `literals`, after those that it
# imports.
set_property(GLOBAL PROPERTY added "")
function(add_module file)
  get_property(added GLOBAL PROPERTY added)
  if(file IN_LIST added)
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY added "${file}")
  get_filename_component(folder "${file}" DIRECTORY)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(REGEX MATCHALL "(^|\n)(import|export)[^;\"]* from \"[^\"]*\"" imports "${text}")
  foreach(import IN LISTS imports)
    string(REGEX REPLACE ".*\"(.*)\"" "\\1" imported "${import}")
    get_filename_component(imported "${imported}" ABSOLUTE BASE_DIR "${folder}")
    add_module("${imported}")
  endforeach()
  string(REGEX REPLACE "(^|\n)(import|export)[^;\"]* from \"[^\"]*\";" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
  literal_of("${text}" "${name}" literal)
  set_property(GLOBAL APPEND_STRING PROPERTY script "${text}")
  set_property(GLOBAL APPEND_STRING PROPERTY literals "    ${literal},\n")
endfunction()

add_module("${SCRIPT}")
get_property(script GLOBAL PROPERTY script)
get_property(literals GLOBAL PROPERTY literals)
# Later rules override earlier ones.
foreach(part colours page tree flame panel tables print)
  file(READ "${CMAKE_CURRENT_LIST_DIR}/../style/${part}.css" text)
  string(APPEND style "\n${text}")
endforeach()
string(SUBSTRING "${style}" 1 -1 style)
literal_of("${style}" style style_literal)
base64_hash("${script}" script_hash)
base64_hash("${style}" style_hash)
file(WRITE "${OUTPUT}" "#include \"report/formats/html/html_page_parts.h\"

#include <array>

namespace optrace {
namespace {
constexpr auto kScripts = std::to_array<std::string_view>({
${literals}});
}  // namespace

std::span<const std::string_view> page_scripts() {
  return kScripts;
}
std::string_view page_script_hash() {
  return \"${script_hash}\";
}
std::string_view page_style() {
  return ${style_literal};
}
std::string_view page_style_hash() {
  return \"${style_hash}\";
}
}  // namespace optrace
")
