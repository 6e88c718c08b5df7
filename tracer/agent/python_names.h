#pragma once

#include <cstdint>

#include "tracer/agent/python_interface.h"

namespace optrace::agent {

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

/// Appends `module.qualname` of a Python function that starts in `frame`. May run Python code of
/// unusual objects; the caller keeps pending exceptions out of it.
void name_python_function(const PythonInterface& python, void* frame, void* code, NameBuffer& name);

/// Appends a builtin's name: `torch.conv2d`, `torch.Tensor.add_`. A method is named after the
/// class that defines it or, where that one is an implementation's (`torch._C.TensorBase`), after
/// the public class on top of it.
void name_builtin(const PythonInterface& python, void* function, const char* method_name,
                  NameBuffer& name);

/// The class whose method the builtin is, as a new reference; null where it is no method of an
/// instance's class.
void* class_of_builtin(const PythonInterface& python, void* function);

}  // namespace optrace::agent
