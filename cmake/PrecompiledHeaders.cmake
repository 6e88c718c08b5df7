# optrace_precompile_headers(TARGET HEADER...): precompiles the headers that most sources of a large
# target include: common headers of the standard library, and each HEADER. Every source still
# includes the headers that it needs.
function(optrace_precompile_headers target)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <filesystem> <functional> <map> <memory> <optional> <set> <string> <string_view>
    <unordered_map> <utility> <vector> <fmt/format.h> ${ARGN})
endfunction()
