#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace optrace {

/// Returns the key by which a wheel's symbol is found in the index: a mangled (Itanium ABI) name
/// without the parts that depend on the compiler or on one translation unit. It unifies the
/// `_GLOBAL__N_*` spellings of an anonymous namespace, GCC's internal-linkage `L`, the C1/C2 and
/// D0/D1/D2 variants, and the namespaces of CPU capabilities (`AVX2`, `AVX512`, `DEFAULT`). It
/// removes the suffixes of function parts and clones (`.cold`, `.isra.0`, `.part.1`,
/// `.constprop.2`), symbol versions (`@@VERS`), and clang's `__device_stub__` prefix. Names are
/// parsed with their lengths and substitutions, so two names with the same key denote the same
/// function. A string that is not a mangled name is returned unchanged.
std::string canonical_symbol(std::string_view mangled);

/// Returns the key under which the index stores the one definition of a function template, or of a
/// member of a class template, for all its instances. It consists of names only, such as
/// `_ZN3c1019TypedOperatorHandle4callE` for every `c10::TypedOperatorHandle<...>::call(...)`.
/// Overloads share it. Returns nothing for a name within a function (a lambda) and for a string
/// that is not a mangled function name.
std::optional<std::string> template_key(std::string_view mangled);

/// Returns the key under which the index stores a function: its lambda_key if it is a lambda, its
/// template_key if it is an instance of a template or a member of one, else its canonical symbol.
std::string function_key(std::string_view mangled);

/// Returns the key of a lambda's operator(). It consists of the key of the enclosing function (or
/// lambda), `Ul`, one letter per parameter (as mangled if it is a builtin type and the function is
/// not a template, else `.`), `#`, and its number among the lambdas with the same signature there.
/// The types are not spelled out because compilers disagree on how to name such a lambda.
/// Returns nothing if the symbol is not a lambda's operator().
std::optional<std::string> lambda_key(std::string_view mangled);

/// Returns the canonical symbol of the function that encloses a name: `at::native::conv2d` for the
/// operator() of a lambda in it. For a lambda within a lambda it is the next outer one. Returns
/// nothing if the name is not in a function.
std::optional<std::string> enclosing_function(std::string_view mangled);

/// Returns the name of the source file of a wheel's symbol, or an empty string if it is unknown.
/// The STT_FILE symbol names it; nvcc's temporary names there are replaced by the name of the `.cu`
/// file. Without an STT_FILE symbol it is taken from the name of an anonymous namespace, where nvcc
/// writes `_` for each character other than a letter or digit; only the last dot is restored.
std::string source_file_of(std::string_view mangled, std::string_view stt_file);

}  // namespace optrace
