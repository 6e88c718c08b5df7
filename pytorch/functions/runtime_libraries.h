#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace optrace {

/// A library of the interpreter, of the system or of optrace.
struct RuntimeLibrary {
  std::string_view start;  ///< Of the file's name.
  /// Its functions are infrastructure, no steps of an op. Those of libm compute.
  bool hidden;
  /// False if its functions call each other in too many ways for the calls to be worth counting.
  bool counted;
};

inline constexpr auto kRuntimeLibraries = std::to_array<RuntimeLibrary>({
    {"libpython", true, false},
    {"python", true, false},
    {"_ctypes", true, false},
    {"libffi", true, false},
    {"libc.so", true, false},
    {"libpthread", true, false},
    {"ld-linux", true, false},
    {"libm.so", false, false},
    {"libstdc++", true, false},
    {"libgcc_s", true, true},
    {"libgomp", true, true},
    {"libiomp5", true, true},
    {"liboptrace", true, true},
});

/// Returns true if reports leave out the functions of a library. `file` is the name of its file,
/// without folders.
constexpr bool is_hidden_library(std::string_view file) {
  return std::ranges::any_of(kRuntimeLibraries, [&](const RuntimeLibrary& library) {
    return library.hidden && file.starts_with(library.start);
  });
}

/// Returns true if calls of the functions of the library at `path` are counted.
constexpr bool has_counted_calls(std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return std::ranges::none_of(kRuntimeLibraries, [&](const RuntimeLibrary& library) {
    return !library.counted && file.starts_with(library.start);
  });
}

}  // namespace optrace
