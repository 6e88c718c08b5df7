#pragma once

#include <cstdint>

#include "tracer/in_process/agent/python/python_interface.h"

namespace optrace::agent {

// Names are read where the interpreter keeps them: method definitions, types, code objects and
// dictionaries. Nothing here looks an attribute or an item up in an object of the program, compares
// keys, or converts an object to text, since each of those can run Python code of the program's or
// a signal handler that is due. No Python object is made, so no garbage is collected either, and no
// exception is set.

/// Text that is put together piece by piece; what does not fit is cut.
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

/// Appends a `str` (or an object of a class derived from it) as UTF-8, a lone surrogate as
/// `\udc80`. False for every other object, and for null.
bool append_text(const PythonInterface& python, void* text, NameBuffer& name);

/// A field of a code object by the name that Python has for it (`co_filename`), borrowed; null
/// where this version has no such field.
void* field_of_code(const PythonInterface& python, void* code, const char* name);

/// The same of a number (`co_firstlineno`); 0 where there is none.
int number_in_code(const PythonInterface& python, void* code, const char* name);

/// Appends `module.qualname` of a Python function that starts in `frame`.
void name_python_function(const PythonInterface& python, void* frame, void* code, NameBuffer& name);

/// What a builtin was made from, and its bound methods share: PyMethodDef (Include/methodobject.h).
struct MethodDefinition {
  const char* name;
  void* function;
  int flags;
  const char* text;
};

/// Of an object of PyCFunction_Type or a type derived from it.
MethodDefinition* definition_of(const PythonInterface& python, void* function);

/// Appends a builtin's name: `torch.conv2d`, `torch.Tensor.add_`. A method is named after the
/// class that defines it or, where that one is an implementation's (`torch._C.TensorBase`), after
/// the public class on top of it.
void name_builtin(const PythonInterface& python, void* function, NameBuffer& name);

/// The class whose method the builtin is, borrowed; null where it is no method of an instance's
/// class.
void* class_of_builtin(const PythonInterface& python, void* function);

/// The C name, with the module, of the class whose method table holds what the builtin was made
/// from; null where it is no such method.
const char* type_name_of_builtin(const PythonInterface& python, void* function);

}  // namespace optrace::agent
