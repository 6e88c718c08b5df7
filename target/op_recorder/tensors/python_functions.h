#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace optrace_ops {

// The functions of CPython's C API that the op records use. They are looked up in the process,
// since its Python may have no headers. Call them with the GIL held.

using Object = void;

struct PythonFunctions {
  int (*PyGILState_Ensure)() = nullptr;
  void (*PyGILState_Release)(int) = nullptr;
  Object* (*PyGILState_GetThisThreadState)() = nullptr;
  Object* (*PyEval_GetFrame)() = nullptr;  // Borrowed.
  Object* (*PyFrame_GetBack)(Object* frame) = nullptr;
  Object* (*PyFrame_GetCode)(Object* frame) = nullptr;
  int (*PyFrame_GetLineNumber)(Object* frame) = nullptr;
  Object* (*PyObject_GetAttrString)(Object* object, const char* name) = nullptr;
  Object* (*PyObject_Type)(Object* object) = nullptr;
  Object* (*PyObject_GenericGetDict)(Object* object, void* context) = nullptr;
  unsigned long (*PyType_GetFlags)(Object* type) = nullptr;
  int (*PyType_IsSubtype)(Object* type, Object* base) = nullptr;
  const char* (*PyUnicode_AsUTF8AndSize)(Object* text, std::int64_t* size) = nullptr;
  int (*PyDict_Next)(Object* dictionary, std::int64_t* position, Object** key,
                     Object** value) = nullptr;                                    // Borrowed.
  Object* (*PyImport_GetModuleDict)() = nullptr;                                   // Borrowed.
  Object* (*PyDict_GetItemString)(Object* dictionary, const char* key) = nullptr;  // Borrowed.
  Object* (*PyModule_GetDict)(Object* module) = nullptr;                           // Borrowed.
  std::int64_t (*PyTuple_Size)(Object* tuple) = nullptr;
  Object* (*PyTuple_GetItem)(Object* tuple, std::int64_t index) = nullptr;  // Borrowed.
  std::int64_t (*PyList_Size)(Object* list) = nullptr;
  Object* (*PyList_GetItem)(Object* list, std::int64_t index) = nullptr;  // Borrowed.
  Object* (*PyCell_Get)(Object* cell) = nullptr;
  long long (*PyLong_AsLongLongAndOverflow)(Object* number, int* overflow) = nullptr;
  void* (*PyLong_AsVoidPtr)(Object* number) = nullptr;
  void (*PyErr_Fetch)(Object**, Object**, Object**) = nullptr;
  void (*PyErr_Restore)(Object*, Object*, Object*) = nullptr;
  void (*PyErr_Clear)() = nullptr;
  void (*Py_IncRef)(Object* object) = nullptr;
  void (*Py_DecRef)(Object* object) = nullptr;
  const char* (*Py_GetVersion)() = nullptr;
  void* PyCell_Type = nullptr;
  void* PyCFunction_Type = nullptr;
  void* PyModule_Type = nullptr;
  // The following are null in some versions.
  int (*PyGC_Disable)() = nullptr;  // From 3.10 on.
  int (*PyGC_Enable)() = nullptr;
  Object* (*PyFrame_GetVar)(Object* frame, Object* name) = nullptr;  // From 3.12 on.
  int (*Py_IsFinalizing)() = nullptr;                                // From 3.13 on.
  // Before. NOLINTNEXTLINE(bugprone-reserved-identifier)
  int (*_Py_IsFinalizing)() = nullptr;

  /// Returns false if this process has no CPython that can be read.
  bool find();
};

extern PythonFunctions python;

/// A reference that is dropped at the end of the scope. Null for a failed call, whose exception is
/// cleared.
class Reference {
 public:
  explicit Reference(Object* object) : object_(object) {
    if (object == nullptr) python.PyErr_Clear();
  }
  ~Reference() {
    if (object_ != nullptr) python.Py_DecRef(object_);
  }
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;

  Object* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Object* object_;
};

/// Returns the UTF-8 of a str; empty for anything else.
std::string_view text_of(Object* text);

/// Returns the text of an attribute; empty if it is not a str.
std::string text_at(Object* object, const char* attribute);

/// Reads a member of an object whose layout is known.
template <typename T>
T field(const void* object, std::size_t offset) {
  T value;
  // T may be a pointer. NOLINTNEXTLINE(bugprone-sizeof-expression)
  std::memcpy(static_cast<void*>(&value), static_cast<const char*>(object) + offset, sizeof(T));
  return value;
}

}  // namespace optrace_ops
