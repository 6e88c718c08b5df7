#pragma once

#include <clang-c/Index.h>

namespace optrace {

/// True for functions, methods, and templates of them.
bool is_function(CXCursorKind kind);

/// True for declarations that contain other declarations, such as namespaces and classes.
bool holds_functions(CXCursorKind kind);

bool is_class(CXCursorKind kind);

/// Returns true for `template <> void f<float>() {}` and declarations within one, but not for an
/// instance made by the compiler.
bool is_explicit_specialization(CXTranslationUnit unit, CXCursor cursor);

/// Returns true for a template, and for declarations within one.
bool is_within_template(CXCursor cursor);

/// Returns true for a `__global__` function or a template of one.
bool is_device_kernel(CXCursor function);

/// Returns true for functions of the CUDA runtime and driver that launch a kernel passed to them.
bool is_launcher(CXCursor function);

/// Return a null cursor without children.
CXCursor first_child(CXCursor cursor);
CXCursor last_child(CXCursor cursor);

/// Returns the expression before a call's parenthesis.
CXCursor called_expression(CXCursor call);

/// Returns the end of the name in a member expression. A call starts where its object does, so in a
/// chain over several lines only the end of the name is on the right line.
CXSourceLocation end_of_member(CXCursor member);

/// Returns the class, or the class template, of the object of a member expression.
CXCursor class_of_object(CXCursor member);

}  // namespace optrace
