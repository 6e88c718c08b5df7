# Makes a C++ source of the styles of pages and pictures (present/document_style.h). Run with
# cmake -D DOCUMENT=FILE -D LAYER_MAP=FILE -D OUTPUT=FILE -P embed_style.cmake.

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/embedded_text.cmake)

# Sets `result` to the definition of a constant with the style in `file`.
function(style_constant name file result)
  file(READ "${file}" css)
  base64_hash("${css}" hash)
  literal_of("${css}" "${file}" literal)
  set(${result} "const EmbeddedStyle ${name} = {${literal}, \"${hash}\"};\n" PARENT_SCOPE)
endfunction()

style_constant(kDocumentStyle "${DOCUMENT}" document)
style_constant(kLayerMapStyle "${LAYER_MAP}" layer_map)
file(WRITE "${OUTPUT}" "#include \"present/document_style.h\"

namespace optrace {
${document}${layer_map}}  // namespace optrace
")
