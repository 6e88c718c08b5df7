#pragma once

#include <string>
#include <vector>

namespace optrace {

/// Loads libclang, whose functions (clang-c/Index.h) can be called afterwards, and returns compiler
/// arguments that it needs in every call. Programs that link optrace_libclang have no other link
/// with libclang, so that they can use the one of PyPI's package `libclang`.
///
/// Takes $OPTRACE_LIBCLANG if it is set, else the first of: the package `libclang` in the Python
/// environment that optrace is installed in, the libclang that optrace was built with, and
/// `libclang.so` wherever the dynamic linker finds it. The arguments name the folder of clang's
/// builtin headers (`stddef.h`, `immintrin.h`) that come with optrace if that libclang has none.
///
/// Throws Error(failed) if there is no libclang, or if it lacks a function that optrace calls.
/// Errors name the command that installs it.
std::vector<std::string> load_libclang();

}  // namespace optrace
