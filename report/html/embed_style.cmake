# Makes a C++ source of the styles of pages and pictures (report/output/document_style.h). Run with
# cmake -D DOCUMENT=FILE -D LAYER_MAP=FILE -D OUTPUT=FILE -P embed_style.cmake.

# Sets `result` to the base64 of the SHA-256 of a text. A Content-Security-Policy names an inline
# style by it.
function(base64_hash text result)
  string(SHA256 hex "${text}")
  string(APPEND hex "00")  # 33 bytes are 44 digits; the last digit is the padding.
  set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(encoded "")
  foreach(at RANGE 0 63 6)
    string(SUBSTRING "${hex}" ${at} 6 group)
    foreach(shift 18 12 6 0)
      math(EXPR digit "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING "${digits}" ${digit} 1 letter)
      string(APPEND encoded "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${encoded}" 0 43 encoded)
  set(${result} "${encoded}=" PARENT_SCOPE)
endfunction()

# Sets `result` to the definition of a constant with the style in `file`.
function(style_constant name file result)
  file(READ "${file}" css)
  base64_hash("${css}" hash)
  set(${result} "const EmbeddedStyle ${name} = {R\"optrace(${css})optrace\", \"${hash}\"};\n"
      PARENT_SCOPE)
endfunction()

style_constant(kDocumentStyle "${DOCUMENT}" document)
style_constant(kLayerMapStyle "${LAYER_MAP}" layer_map)
file(WRITE "${OUTPUT}" "#include \"report/output/document_style.h\"

namespace optrace {
${document}${layer_map}}  // namespace optrace
")
