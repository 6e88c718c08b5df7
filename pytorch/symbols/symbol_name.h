#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace optrace {

/// Returns the qualified name of a mangled (Itanium ABI) symbol in the form used in source code:
/// without parameters, return type, ABI tags and clone suffixes, with template arguments.
///
///     _ZN2at4_ops6conv2d4callERKNS_6TensorE...  at::_ops::conv2d::call
///     (a lambda in a function)                  at::native::foo::{lambda#1}::operator()
///
/// The demangler is GNU libiberty's, as in gdb. A name that is not mangled is returned without its
/// symbol version and clone suffix (`_PyEval_EvalFrameDefault.cold`), otherwise unchanged.
std::string qualified_name(std::string_view symbol);

/// Same, for a demangled name: `at::native::add` for `at::native::add(at::Tensor const&,
/// c10::Scalar const&)`.
std::string qualified_name_of_demangled(std::string_view demangled);

/// Returns the part after `_ZN` and the qualifiers of a member function (`K`, `R`, `O`); empty for
/// symbols that are not nested names.
std::string_view nested_name(std::string_view symbol);

/// Returns what follows the last `::` of a name: `ConvBackend` for `at::native::ConvBackend`. The
/// result is valid as long as `name`.
std::string_view unqualified_name(std::string_view name);

/// Returns a symbol's parameters in source form, `(at::Tensor const&, c10::ArrayRef<long>)`, with
/// the standard library's string types under their short names. Empty if the symbol has none.
std::string parameters_of(std::string_view symbol);

/// Returns `name` for display: template argument lists are shortened to `<…>`, except that of
/// `torch::autograd::CppNode`, and namespaces that don't help a reader of a call stack (`(anonymous
/// namespace)`, `torch::autograd` above THPVariable_...) are left out. The result is not unique.
/// Python's `<module>`, `<lambda>` and `<locals>` are kept.
std::string short_name(std::string_view name);

/// Shortens UTF-8 `text` to at most `width` characters by replacing its middle with `…`.
std::string shorten_middle(std::string_view text, std::size_t width);

}  // namespace optrace
