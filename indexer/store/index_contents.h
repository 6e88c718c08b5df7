#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace optrace {

/// How a function uses another at a call site.
enum class CallKind : std::uint8_t {
  call,       ///< Calls it.
  launch,     ///< Launches it on a device (`kernel<<<grid, block>>>(...)`).
  stub,       ///< Calls whatever is registered for a DispatchStub; the callee is the stub.
  reference,  ///< Takes its address: hands it to a loop, a table or a registration.
};

/// What a definition is of.
enum class DefinitionKind : std::uint8_t {
  function,       ///< Functions, methods, lambdas.
  device_kernel,  ///< `__global__` functions.
  type,           ///< A class; its symbol is that of its type information, `_ZTIN2at8TensorBaseE`.
  stub,           ///< A DispatchStub, where it is declared; its symbol is the variable's.
  enumeration,    ///< Its symbol is that of its type information, as a class's.
};

/// Who registered what.
enum class RegistrationKind : std::uint8_t {
  definition,   ///< `m.def("name(schema)", f)`: the key is empty; f may be absent.
  kernel,       ///< `m.impl("name", f)` for a dispatch key.
  fallthrough,  ///< `m.impl("name", CppFunction::makeFallthrough())`; or for a whole key.
  fallback,     ///< `m.fallback(f)`: for a whole key; the name is the namespace, `_` for all.
  stub,         ///< REGISTER_DISPATCH and its like: the name is the stub's symbol.
};

/// What an index is written from. The order of nothing in here matters to the file.
struct IndexContents {
  struct Call {
    std::string callee;  ///< Canonical symbol.
    std::uint32_t line = 0;
    CallKind kind = CallKind::call;
    auto operator<=>(const Call&) const = default;
  };
  struct Function {
    std::string symbol;  ///< Canonical.
    std::string file;    ///< Relative to the source tree.
    std::uint32_t line = 0;
    std::vector<Call> calls;
    DefinitionKind kind = DefinitionKind::function;
  };
  struct Registration {
    RegistrationKind kind = RegistrationKind::kernel;
    std::string name;      ///< `aten::add.Tensor`; see RegistrationKind.
    std::string key;       ///< `CPU`, `AutogradCUDA`; of a stub `CPU.AVX2`, `CUDA`.
    std::string function;  ///< Canonical symbol; empty where none is named (a fallthrough).
    std::string file;
    std::uint32_t line = 0;
    auto operator<=>(const Registration&) const = default;
  };
  /// An entry of native_functions.yaml, or an op that torchgen makes from one (autogen).
  struct Op {
    std::string name;              ///< `aten::add.Tensor`
    std::string unambiguous_name;  ///< `add_Tensor`
    std::uint32_t line = 0;        ///< In native_functions.yaml.
    std::string facts;             ///< JSON of op_facts.h; empty where unknown.
  };
  /// A name that Python code can reach.
  struct PythonName {
    std::string name;  ///< `torch.nn.modules.linear.Linear.forward`
    char kind = 'f';   ///< PythonKind's letter (index_store.h).
    std::string target;
    std::string file;  ///< `torch/nn/modules/linear.py`; empty for builtins and aliases.
    std::uint32_t line = 0;
    auto operator<=>(const PythonName&) const = default;
  };

  std::map<std::string, std::string> meta;  ///< `torch_version`, `git_version`, ...
  std::vector<Function> functions;
  std::vector<Registration> registrations;
  std::vector<Op> ops;
  std::vector<PythonName> python_names;
};

}  // namespace optrace
