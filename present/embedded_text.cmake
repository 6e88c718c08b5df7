# What the scripts that embed texts of pages share: the hash of a text, and its C++ literal.

# C++ compilers must accept literals of 64 KiB.
set(max_literal 65000)

# Sets `result` to the base64 of the SHA-256 of a text. A Content-Security-Policy names an inline
# script or style by it.
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

# Sets `result` to a C++ literal of a text that ends an element of the page nowhere.
function(literal_of text name result)
  string(LENGTH "${text}" size)
  string(TOLOWER "${text}" lower)
  if(size GREATER max_literal)
    message(FATAL_ERROR "${name} has ${size} bytes; ${max_literal} are the most. Split it.")
  endif()
  if(lower MATCHES "</(script|style)|<!--" OR lower MATCHES "\\)optrace\"")
    message(FATAL_ERROR "${name} contains ${CMAKE_MATCH_0}, which would end its part of the page.")
  endif()
  set(${result} "R\"optrace(${text})optrace\"" PARENT_SCOPE)
endfunction()
