#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pytorch/source/line_interval.h"

namespace optrace {

/// The way a call site uses a function.
enum class CallKind : std::uint8_t {
  call,       ///< Calls it.
  launch,     ///< Launches it on a device (`kernel<<<grid, block>>>(...)`).
  stub,       ///< Calls whatever is registered for a DispatchStub; the callee is the stub.
  reference,  ///< Takes its address: hands it to a loop, a table or a registration.
};

/// Kind of a definition.
enum class DefinitionKind : std::uint8_t {
  function,       ///< Functions, methods, lambdas.
  device_kernel,  ///< `__global__` functions.
  type,           ///< A class; its symbol is that of its type information, `_ZTIN2at8TensorBaseE`.
  stub,           ///< The declaration of a DispatchStub; its symbol is the variable's.
  enumeration,    ///< An enumeration; its symbol is that of its type information.
};

/// Kind of a registration.
enum class RegistrationKind : std::uint8_t {
  definition,   ///< `m.def("name(schema)", f)`: the key is empty; f may be absent.
  kernel,       ///< `m.impl("name", f)` for a dispatch key.
  fallthrough,  ///< `m.impl("name", CppFunction::makeFallthrough())`, or the same for a whole key.
  fallback,     ///< `m.fallback(f)` for a whole key; the name is the namespace, `_` for all.
  stub,         ///< REGISTER_DISPATCH and similar macros; the name is the stub's symbol.
};

/// The order in which an index is written.
inline auto operator<=>(const LineInterval& left, const LineInterval& right) {
  return std::tie(left.first, left.last) <=> std::tie(right.first, right.last);
}

/// A place in the source that a wheel's code tells about itself (platform/elf/source_anchors.h): a
/// line, and what distinguishes its anchor from others of the file in any version of PyTorch.
struct IndexedAnchor {
  std::string file;  ///< Relative to the source tree.
  std::uint32_t line = 0;
  std::uint32_t key = 0;  ///< A hash of the function's name, the kind and the literal message.
  auto operator<=>(const IndexedAnchor&) const = default;
};

/// The contents of an index to write. The order of elements does not affect the file.
struct IndexContents {
  struct Call {
    std::string callee;  ///< Canonical symbol.
    std::uint32_t line = 0;
    CallKind kind = CallKind::call;
    std::optional<LineInterval> approximate{};  ///< Nothing if the line is exact.
    auto operator<=>(const Call&) const = default;
  };
  struct Function {
    std::string symbol;  ///< Canonical.
    std::string file;    ///< Relative to the source tree.
    std::uint32_t line = 0;
    std::vector<Call> calls;
    DefinitionKind kind = DefinitionKind::function;
    std::optional<LineInterval> approximate{};
    /// The type of a function's result, or an enumeration itself, as text_of() of result_type.h
    /// returns it; empty for other types.
    std::string result{};
  };
  struct Registration {
    RegistrationKind kind = RegistrationKind::kernel;
    std::string name;      ///< The op, `aten::add.Tensor`; see RegistrationKind for others.
    std::string key;       ///< `CPU`, `AutogradCUDA`; for a stub `CPU.AVX2`, `CUDA`.
    std::string function;  ///< Canonical symbol; empty if no function is named (a fallthrough).
    std::string file;
    std::uint32_t line = 0;
    std::optional<LineInterval> approximate{};
    auto operator<=>(const Registration&) const = default;
  };
  /// An entry of native_functions.yaml, or an op that torchgen generates from one (autogen).
  struct Op {
    std::string name;              ///< `aten::add.Tensor`
    std::string unambiguous_name;  ///< `add_Tensor`
    std::uint32_t line = 0;        ///< Line in native_functions.yaml.
    std::string facts;             ///< JSON of op_facts.h; empty if unknown.
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
  std::vector<IndexedAnchor> anchors;
};

}  // namespace optrace
