#pragma once

#include <cstdint>

#include "target/agent/python/python_interface.h"

namespace optrace::agent {

// Names are read directly from method definitions, types, code objects and dictionaries. Nothing
// here looks up attributes or items of the program's objects, compares keys, or converts objects to
// text, because each of these can run the program's Python code or a pending signal handler. No
// Python object is created, so no garbage collection is triggered, and no exception is set.

/// Text buffer; text beyond its capacity is cut off.
class NameBuffer {
 public:
  void append(const char* text, std::uint64_t size);
  void append(const char* text);
  std::uint32_t size() const { return size_; }
  const char* data() const { return text_; }

 private:
  char text_[4096] = {};
  std::uint32_t size_ = 0;
};

/// Appends a `str` (or an instance of a derived class) as UTF-8, a lone surrogate as `\udc80`.
/// Returns false for any other object and for null.
bool append_text(const PythonInterface& python, void* text, NameBuffer& name);

/// Returns a field of a code object by its Python name (`co_filename`) as a borrowed reference, or
/// null if this version has no such field.
void* field_of_code(const PythonInterface& python, void* code, const char* name);

/// Same for an integer field (`co_firstlineno`); 0 if there is none.
int number_in_code(const PythonInterface& python, void* code, const char* name);

/// Returns the names of a code object's variables (`co_varnames`) as a new reference, which may be
/// a new object; null if they are unknown.
void* variable_names_of_code(const PythonInterface& python, void* code);

/// Returns where a frame object has its variables, in the order of their names. Only before 3.11.
const char* variables_of_frame(const PythonInterface& python, const void* frame);

/// Appends `module.qualname` of a Python function that starts in `frame`.
void name_python_function(const PythonInterface& python, void* frame, void* code, NameBuffer& name);

/// PyMethodDef (Include/methodobject.h): the definition that a builtin was created from and that
/// its bound methods share.
struct MethodDefinition {
  const char* name;
  void* function;
  int flags;
  const char* text;
};

/// Returns the definition of an object of PyCFunction_Type or a derived type.
MethodDefinition* definition_of(const PythonInterface& python, void* function);

/// Appends a builtin's name: `torch.conv2d`, `torch.Tensor.add_`. A method is named after the class
/// that defines it or, if that class is internal (`torch._C.TensorBase`), after the public class
/// derived from it.
void name_builtin(const PythonInterface& python, void* function, NameBuffer& name);

/// Returns the class whose method the builtin is as a borrowed reference, or null if it is not a
/// method of an instance's class.
void* class_of_builtin(const PythonInterface& python, void* function);

/// Returns the C name, including the module, of the class whose method table contains the builtin's
/// definition, or null if it is not such a method.
const char* type_name_of_builtin(const PythonInterface& python, void* function);

}  // namespace optrace::agent
