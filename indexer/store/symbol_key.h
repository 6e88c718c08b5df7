#pragma once

#include <optional>
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

/// True for the namespaces of CPU capabilities that canonical_symbol makes one.
bool is_cpu_capability(std::string_view name);

/// The one that it makes of them: `DEFAULT`.
std::string_view baseline_capability();

/// The key of a function template, or of a member of a class template, under which the index holds
/// its one definition for all its instances: the names alone, as
/// `_ZN3c1019TypedOperatorHandle4callE` for every `c10::TypedOperatorHandle<...>::call(...)`.
/// Overloads share it. Nothing for a name within a function (a lambda) and for what is no mangled
/// function name.
std::optional<std::string> template_key(std::string_view mangled);

/// The key under which the index holds a function: its canonical symbol, or its template_key when
/// it is an instance of a template or a member of one, or its lambda_key.
std::string function_key(std::string_view mangled);

/// The key of a lambda's operator(): the key of the function (or lambda) that it lies in, `Ul`, a
/// letter for each parameter (as mangled where it is a builtin type and the function no template,
/// else `.`), `#` and its number among the lambdas of the same signature there. The types'
/// spelling is left out because compilers disagree on how to give such a lambda a name at all.
/// Nothing where the symbol is no lambda's operator().
std::optional<std::string> lambda_key(std::string_view mangled);

/// The canonical symbol of the function that a name lies in: `at::native::conv2d` for its lambda's
/// operator(). Nothing where the name lies in no function. Lambdas in lambdas: the next one out.
std::optional<std::string> enclosing_function(std::string_view mangled);

/// The name of the source file that a wheel's symbol is of, as far as that is told: by nvcc, which
/// puts it into the names of its anonymous namespaces (with `_` for what is no letter or digit, but
/// for the last dot), or by the STT_FILE symbol, of which nvcc's temporary names become the `.cu`
/// file's. Else empty.
std::string source_file_of(std::string_view mangled, std::string_view stt_file);

}  // namespace optrace
