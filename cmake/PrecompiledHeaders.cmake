# optrace_precompile_headers(TARGET HEADER...): parses once what most sources of a large target read,
# the HEADERs besides the standard library's. Each source names what it needs all the same.
function(optrace_precompile_headers target)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <filesystem> <functional> <map> <memory> <optional> <set> <string> <string_view>
    <unordered_map> <utility> <vector> <fmt/format.h> ${ARGN})
endfunction()
