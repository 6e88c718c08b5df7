#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/TensorImpl.h>

namespace optrace_ops {

// The program's own Python code, as opposed to that of installed packages and of Python itself: the
// line that a thread executes, and the variables that refer to tensors. Everything is read with
// CPython's C API, whose functions are looked up in the process. No Python code runs: variables are
// read from dictionaries and from frames, not through `f_locals`, which would keep tensors alive.

struct PythonPlace {
  std::string file;  ///< Empty if unknown.
  std::uint32_t line = 0;
  bool has_variables = false;  ///< The variables were visited, too.
};

struct PythonVariable {
  /// `x`, or a path to a tensor that a variable contains: `x[0]`, `x['key']`, `x.attribute`.
  std::string_view name;
  const c10::TensorImpl* tensor;  ///< Alive during the visit.
  bool nested;                    ///< It is in a container or an attribute.
};

/// A function call, or a module, with its variables.
struct PythonScope {
  std::string file;
  std::string function;  ///< Empty for a module.
  /// The frame of the call, or the dictionary of the module. It is only compared.
  const void* variables;
};

/// Receives a scope that is visited, and then each of its variables that refers to a tensor.
class VariableVisitor {
 public:
  /// Returns true if the visit shall include nested tensors.
  virtual bool begin(const PythonScope& scope) = 0;
  virtual void add(const PythonVariable& variable) = 0;
  /// `name` is that of a tensor that is visited, with `.grad`. `address` may only be compared:
  /// another thread, which needs no GIL for it, may have replaced the gradient.
  virtual void add_gradient(std::string_view name, const c10::TensorImpl* address) = 0;
  /// `nested` is the number of values in containers and attributes that were looked at.
  virtual void end(std::size_t nested) = 0;

 protected:
  ~VariableVisitor() = default;
};

/// Objects and folders of the process's Python.
struct PythonSettings {
  void* tensor_type = nullptr;         ///< torch.Tensor.
  void* sample = nullptr;              ///< A tensor of that type, from which its layout is read.
  std::vector<std::string> not_own{};  ///< Folders with files that are not the program's own.
};

/// To be called first, with the GIL held. Keeps a reference to the type. Returns false if this
/// process has no CPython that can be read.
bool use_python(const PythonSettings& settings);

/// Returns the line of the program's own code that the calling thread executes, and visits the
/// variables of the program's functions and modules on its stack. Takes the GIL, which the thread
/// may have released: it must not hold a lock for which another thread might wait with the GIL.
/// Does nothing on a thread that Python doesn't know.
PythonPlace look_at_python(VariableVisitor& visitor);

/// Visits the variables of the program's main module, as a scope without a file.
void look_at_main_module(VariableVisitor& visitor);

}  // namespace optrace_ops
