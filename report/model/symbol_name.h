#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace optrace {

/// The qualified name of a mangled (Itanium ABI) symbol as a reader of the source knows it: without
/// parameters, return type, ABI tags and clone suffixes, template arguments kept.
///
///     _ZN2at4_ops6conv2d4callERKNS_6TensorE...  at::_ops::conv2d::call
///     (a lambda in a function)                  at::native::foo::{lambda#1}::operator()
///
/// The demangler is GNU libiberty's, as in gdb. What is no mangled name comes back without its
/// symbol version and clone suffix (`_PyEval_EvalFrameDefault.cold`), otherwise unchanged.
std::string qualified_name(std::string_view symbol);

/// The same of a name that a demangler has written: `at::native::add` of
/// `at::native::add(at::Tensor const&, c10::Scalar const&)`.
std::string qualified_name_of_demangled(std::string_view demangled);

/// A symbol's parameters as the source has them, `(at::Tensor const&, c10::ArrayRef<long>)`, with
/// the standard library's strings under their short names; empty for what has none.
std::string parameters_of(std::string_view symbol);

/// `name` with each template argument list, and the namespaces that say nothing to a reader of a
/// call stack (`(anonymous namespace)`, `torch::autograd` above THPVariable_...), left out:
/// for display, not unique. What Python calls `<module>`, `<lambda>` or `<locals>` stays.
std::string short_name(std::string_view name);

/// `text` in at most `width` characters, the middle of it replaced by `…`. UTF-8.
std::string shorten_middle(std::string_view text, std::size_t width);

}  // namespace optrace
