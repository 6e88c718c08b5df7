# Makes a C++ source of the style of the map of layers (lookup/layers/layer_map_style.h). Run with
# cmake -D STYLE=FILE -D OUTPUT=FILE -P embed_style.cmake.

cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/../../present/embedded_text.cmake)

file(READ "${STYLE}" css)
literal_of("${css}" "${STYLE}" literal)
file(WRITE "${OUTPUT}" "#include \"lookup/layers/layer_map_style.h\"

namespace optrace {
const std::string_view kLayerMapStyle = ${literal};
}  // namespace optrace
")
