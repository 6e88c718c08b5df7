#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// A call as it is written: the callee's name is not looked up.
struct ParsedCall {
  std::string name;      ///< `at::redispatch::convolution_symint`; without template arguments.
  std::string receiver;  ///< The identifier before `.` or `->`; empty if there is none.
  bool is_member = false;
  std::uint32_t line = 0;
};

/// A function's definition.
struct ParsedFunction {
  std::vector<std::string> scope;  ///< Namespaces and classes; an unnamed namespace is empty.
  std::string name;                ///< As written: `conv2d::call`.
  std::size_t parameters = 0;
  std::uint32_t line = 0;  ///< Line of the name.
  std::vector<ParsedCall> calls;
  /// The local variables of the body and their types: `op`, `structured_add_out`.
  std::vector<std::pair<std::string, std::string>> variables;
};

struct ParsedClass {
  std::vector<std::string> scope;
  std::string name;
  std::vector<std::string> bases;  ///< As written.
};

/// A call of `impl` or `def` in a block of TORCH_LIBRARY or TORCH_LIBRARY_IMPL.
struct ParsedRegistration {
  std::vector<std::string> scope;
  std::string library;   ///< `aten`
  std::string key;       ///< `CPU`; empty in TORCH_LIBRARY.
  std::string op;        ///< The string: `add.Tensor`, or a schema.
  std::string function;  ///< `VariableType::add_Tensor`; empty if the argument is not TORCH_FN.
  bool is_definition = false;
  std::uint32_t line = 0;
};

/// What a file of C++ contains.
struct ParsedCode {
  std::vector<ParsedFunction> functions;
  std::vector<ParsedClass> classes;
  std::vector<ParsedRegistration> registrations;
  std::vector<std::string> used_namespaces;  ///< Of `using namespace X`.
};

/// Reads the code that PyTorch's generators write, without a compiler: declarations are recognized
/// by their shape, and macros are not expanded. Text that does not have the shape of C++ gives an
/// incomplete outline.
ParsedCode parse_shallowly(std::string_view code);

}  // namespace optrace
