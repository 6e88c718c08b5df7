#pragma once

#include <string>
#include <string_view>

namespace optrace {

/// The key under which the index and a wheel's symbol meet: a mangled (Itanium ABI) name with all
/// that depends on the compiler or on one translation unit folded away. Made one are: the
/// `_GLOBAL__N_*` spellings of an anonymous namespace, GCC's internal-linkage `L`, the C1/C2 and
/// D0/D1/D2 variants, the namespaces of CPU capabilities (`AVX2`, `AVX512`, `DEFAULT`). Cut are the
/// suffixes of parts and clones (`.cold`, `.isra.0`, `.part.1`, `.constprop.2`), symbol versions
/// (`@@VERS`), and clang's `__device_stub__` prefix. Substitutions are followed (length-aware), so
/// two names with one key name one function. What is no mangled name is returned unchanged.
std::string canonical_symbol(std::string_view mangled);

}  // namespace optrace
