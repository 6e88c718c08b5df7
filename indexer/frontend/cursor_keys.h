#pragma once

#include <string>
#include <string_view>

#include <clang-c/Index.h>

namespace optrace {

/// Returns the key of a function: its canonical symbol; for a template and what is within one, the
/// key that template_key in symbol_key.h returns for the symbol of an instance. Empty if there is
/// none.
std::string key_of(CXCursor function);

/// Returns a key such as `_ZTIN2at8TensorBaseE`, or an empty string for a class in a function or
/// without a name.
std::string type_key_of(CXCursor type);

/// Returns true for functions that no report shows: those of the C++ standard library and of
/// stub_headers/.
bool is_left_out(std::string_view symbol);

/// The parameters of a lambda: the letters for lambda_key, and the types to distinguish signatures.
struct Signature {
  bool of_template = false;
  std::string letters;
  std::string types;
};

/// Returns the parameters of a lambda. `of_template`: it is within a template.
Signature signature_of(CXCursor lambda, bool of_template);

/// DECLARE_DISPATCH(fn, add_stub) declares `struct add_stub_DECLARE_DISPATCH_type` and a variable
/// of that type.
inline constexpr std::string_view kStubType = "_DECLARE_DISPATCH_type";

bool is_stub_type(CXType type);

/// Returns the name of the class of a type.
std::string class_name(CXType type);

/// Returns the symbol of the stub with this type, or an empty string for any other type.
std::string stub_of(CXType type);

/// The template_key of DispatchStub's operator() (aten/src/ATen/native/DispatchStub.h).
inline constexpr std::string_view kCallOfStub = "_ZN2at6native12DispatchStubclE";

}  // namespace optrace
