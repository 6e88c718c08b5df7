#include "tracer/in_process/op_records/python_variables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <ATen/PythonTorchFunctionTLS.h>
#include <dlfcn.h>

namespace optrace_ops {
namespace {

using Object = void;

// Frames of one look, and those of the program among them whose variables are visited.
constexpr int kMaxFrames = 128;
constexpr int kMaxOwnFrames = 8;
// Variables of one scope.
constexpr std::int64_t kMaxVariables = 4096;

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
  const char* (*PyUnicode_AsUTF8AndSize)(Object* text, std::int64_t* size) = nullptr;
  int (*PyDict_Next)(Object* dictionary, std::int64_t* position, Object** key,
                     Object** value) = nullptr;                                    // Borrowed.
  Object* (*PyImport_GetModuleDict)() = nullptr;                                   // Borrowed.
  Object* (*PyDict_GetItemString)(Object* dictionary, const char* key) = nullptr;  // Borrowed.
  Object* (*PyModule_GetDict)(Object* module) = nullptr;                           // Borrowed.
  std::int64_t (*PyTuple_Size)(Object* tuple) = nullptr;
  Object* (*PyTuple_GetItem)(Object* tuple, std::int64_t index) = nullptr;  // Borrowed.
  Object* (*PyCell_Get)(Object* cell) = nullptr;
  void* (*PyLong_AsVoidPtr)(Object* number) = nullptr;
  void (*PyErr_Fetch)(Object**, Object**, Object**) = nullptr;
  void (*PyErr_Restore)(Object*, Object*, Object*) = nullptr;
  void (*PyErr_Clear)() = nullptr;
  void (*Py_IncRef)(Object* object) = nullptr;
  void (*Py_DecRef)(Object* object) = nullptr;
  const char* (*Py_GetVersion)() = nullptr;
  void* PyCell_Type = nullptr;
  // The following are null in some versions.
  int (*PyGC_Disable)() = nullptr;  // From 3.10 on.
  int (*PyGC_Enable)() = nullptr;
  Object* (*PyFrame_GetVar)(Object* frame, Object* name) = nullptr;  // From 3.12 on.
  int (*Py_IsFinalizing)() = nullptr;                                // From 3.13 on.
  int (*_Py_IsFinalizing)() = nullptr;                               // Before.

  bool find();
};

template <typename Function>
bool find_symbol(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

#define OPTRACE_FIND(name) find_symbol(#name, name)

bool PythonFunctions::find() {
  OPTRACE_FIND(PyGC_Disable);
  OPTRACE_FIND(PyGC_Enable);
  OPTRACE_FIND(PyFrame_GetVar);
  OPTRACE_FIND(Py_IsFinalizing);
  OPTRACE_FIND(_Py_IsFinalizing);
  return OPTRACE_FIND(PyGILState_Ensure) && OPTRACE_FIND(PyGILState_Release) &&
         OPTRACE_FIND(PyGILState_GetThisThreadState) && OPTRACE_FIND(PyEval_GetFrame) &&
         OPTRACE_FIND(PyFrame_GetBack) && OPTRACE_FIND(PyFrame_GetCode) &&
         OPTRACE_FIND(PyFrame_GetLineNumber) && OPTRACE_FIND(PyObject_GetAttrString) &&
         OPTRACE_FIND(PyObject_Type) && OPTRACE_FIND(PyUnicode_AsUTF8AndSize) &&
         OPTRACE_FIND(PyDict_Next) && OPTRACE_FIND(PyImport_GetModuleDict) &&
         OPTRACE_FIND(PyDict_GetItemString) && OPTRACE_FIND(PyModule_GetDict) &&
         OPTRACE_FIND(PyTuple_Size) && OPTRACE_FIND(PyTuple_GetItem) && OPTRACE_FIND(PyCell_Get) &&
         OPTRACE_FIND(PyLong_AsVoidPtr) && OPTRACE_FIND(PyErr_Fetch) &&
         OPTRACE_FIND(PyErr_Restore) && OPTRACE_FIND(PyErr_Clear) && OPTRACE_FIND(Py_IncRef) &&
         OPTRACE_FIND(Py_DecRef) && OPTRACE_FIND(Py_GetVersion) && OPTRACE_FIND(PyCell_Type);
}

#undef OPTRACE_FIND

// Where a frame has its local variables in the versions without PyFrame_GetVar, in bytes: in the
// frame object (Include/cpython/frameobject.h of 3.9 and 3.10), or in the interpreter's frame, to
// which the frame object points (Include/internal/pycore_frame.h of 3.11). They are in the order of
// co_varnames. `code` is compared with the frame's code before the variables are read.
struct FrameLayout {
  int minor;
  std::size_t inner;  // The pointer to the interpreter's frame; 0: none.
  std::size_t code;
  std::size_t variables;
};
constexpr FrameLayout kLayouts[] = {{9, 0, 32, 360}, {10, 0, 32, 352}, {11, 24, 32, 72}};

PythonFunctions python;
PythonSettings settings;
const FrameLayout* layout = nullptr;
bool usable = false;

// Takes the GIL, preserves the exception that is set, and keeps the creation of frame objects from
// starting a garbage collection, which runs Python code.
class PythonHeld {
 public:
  PythonHeld() {
    if (!usable || is_finalizing() || python.PyGILState_GetThisThreadState() == nullptr) return;
    state_ = python.PyGILState_Ensure();
    held_ = true;
    python.PyErr_Fetch(&type_, &value_, &traceback_);
    collects_ = python.PyGC_Disable != nullptr && python.PyGC_Disable() != 0;
  }
  ~PythonHeld() {
    if (!held_) return;
    if (collects_) python.PyGC_Enable();
    python.PyErr_Restore(type_, value_, traceback_);
    python.PyGILState_Release(state_);
  }
  PythonHeld(const PythonHeld&) = delete;
  PythonHeld& operator=(const PythonHeld&) = delete;
  explicit operator bool() const { return held_; }

 private:
  static bool is_finalizing() {
    if (python.Py_IsFinalizing != nullptr) return python.Py_IsFinalizing() != 0;
    return python._Py_IsFinalizing != nullptr && python._Py_IsFinalizing() != 0;
  }

  int state_ = 0;
  bool held_ = false;
  bool collects_ = false;
  Object* type_ = nullptr;
  Object* value_ = nullptr;
  Object* traceback_ = nullptr;
};

// A reference that is dropped at the end of the scope.
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

std::string_view text_of(Object* text) {
  std::int64_t size = 0;
  const char* const bytes = text == nullptr ? nullptr : python.PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {
    python.PyErr_Clear();
    return {};
  }
  return {bytes, static_cast<std::size_t>(size)};
}

std::string text_at(Object* object, const char* attribute) {
  const Reference text(python.PyObject_GetAttrString(object, attribute));
  return std::string(text_of(text.get()));
}

bool is_own(std::string_view file) {
  if (file.empty() || file.substr(0, 7) == "<frozen") return false;
  for (const char* const part : {"/site-packages/", "/dist-packages/", "/optrace_target/"})
    if (file.find(part) != std::string_view::npos) return false;
  for (const std::string& folder : settings.not_own)
    if (file.substr(0, folder.size()) == folder) return false;
  return true;
}

// Returns null for an object that is not a tensor.
const c10::TensorImpl* tensor_of(Object* object) {
  if (object == nullptr) return nullptr;
  const Reference type(python.PyObject_Type(object));
  if (type.get() != settings.tensor_type && type.get() != settings.parameter_type) return nullptr;
  // A getter of C. While a mode for torch functions is active, it would call that mode.
  const Reference address(python.PyObject_GetAttrString(object, "_cdata"));
  if (!address) return nullptr;
  const auto* const tensor =
      static_cast<const c10::TensorImpl*>(python.PyLong_AsVoidPtr(address.get()));
  if (tensor == nullptr) python.PyErr_Clear();
  return tensor;
}

void visit_dictionary(Object* dictionary, VariableVisitor& visitor) {
  std::int64_t position = 0;
  std::int64_t left = kMaxVariables;
  Object* key = nullptr;
  Object* value = nullptr;
  while (left-- > 0 && python.PyDict_Next(dictionary, &position, &key, &value) != 0)
    if (const c10::TensorImpl* const tensor = tensor_of(value))
      if (const std::string_view name = text_of(key); !name.empty()) visitor.add({name, tensor});
}

template <typename T>
T field(const void* object, std::size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
  return value;
}

// Returns where the frame has its variables, or null.
const char* variables_in(Object* frame, Object* code) {
  if (layout == nullptr) return nullptr;
  const void* const at = layout->inner == 0 ? frame : field<const void*>(frame, layout->inner);
  if (at == nullptr || field<const void*>(at, layout->code) != code) return nullptr;
  return static_cast<const char*>(at) + layout->variables;
}

void visit_locals(Object* frame, Object* code, VariableVisitor& visitor) {
  const Reference names(python.PyObject_GetAttrString(code, "co_varnames"));
  if (!names) return;
  const std::int64_t count = std::min(python.PyTuple_Size(names.get()), kMaxVariables);
  const char* const variables =
      python.PyFrame_GetVar == nullptr ? variables_in(frame, code) : nullptr;
  if (python.PyFrame_GetVar == nullptr && variables == nullptr) return;
  for (std::int64_t i = 0; i < count; ++i) {
    Object* const name = python.PyTuple_GetItem(names.get(), i);
    if (name == nullptr) break;
    Object* value = nullptr;
    if (variables == nullptr) {
      value = python.PyFrame_GetVar(frame, name);
    } else {
      value = field<Object*>(variables, static_cast<std::size_t>(i) * sizeof(Object*));
      if (value == nullptr) continue;
      const Reference type(python.PyObject_Type(value));
      if (type.get() == python.PyCell_Type)
        value = python.PyCell_Get(value);
      else
        python.Py_IncRef(value);
    }
    const Reference held(value);
    if (const c10::TensorImpl* const tensor = tensor_of(value))
      visitor.add({text_of(name), tensor});
  }
}

void visit_frame(Object* frame, Object* code, const std::string& file, VariableVisitor& visitor) {
  const std::string function = text_at(code, "co_name");
  if (function == "<module>") {
    const Reference globals(python.PyObject_GetAttrString(frame, "f_globals"));
    visitor.begin({file, {}, globals.get()});
    if (globals) visit_dictionary(globals.get(), visitor);
  } else {
    visitor.begin({file, function, frame});
    visit_locals(frame, code, visitor);
  }
  visitor.end();
}

}  // namespace

bool use_python(const PythonSettings& used) {
  if (!python.find()) return false;
  const char* const version = python.Py_GetVersion();
  if (std::strncmp(version, "3.", 2) != 0) return false;
  const int minor = std::atoi(version + 2);
  for (const FrameLayout& one : kLayouts)
    if (one.minor == minor) layout = &one;
  settings = used;
  python.Py_IncRef(settings.tensor_type);
  python.Py_IncRef(settings.parameter_type);
  usable = true;
  return true;
}

PythonPlace look_at_python(VariableVisitor& visitor) {
  PythonPlace place;
  const PythonHeld held;
  if (!held) return place;
  place.has_variables = !at::impl::torch_function_mode_enabled();
  Object* const innermost = python.PyEval_GetFrame();
  if (innermost == nullptr) return place;
  python.Py_IncRef(innermost);
  Reference frame(innermost);
  int own = 0;
  for (int i = 0; frame && i < kMaxFrames && own < kMaxOwnFrames; ++i) {
    const Reference code(python.PyFrame_GetCode(frame.get()));
    if (std::string file = text_at(code.get(), "co_filename"); is_own(file)) {
      ++own;
      if (place.file.empty()) {
        const int line = python.PyFrame_GetLineNumber(frame.get());
        place.file = file;
        place.line = line > 0 ? static_cast<std::uint32_t>(line) : 0;
      }
      if (place.has_variables) visit_frame(frame.get(), code.get(), file, visitor);
    }
    frame = Reference(python.PyFrame_GetBack(frame.get()));
  }
  return place;
}

void look_at_main_module(VariableVisitor& visitor) {
  const PythonHeld held;
  if (!held || at::impl::torch_function_mode_enabled()) return;
  Object* const modules = python.PyImport_GetModuleDict();
  Object* const main =
      modules == nullptr ? nullptr : python.PyDict_GetItemString(modules, "__main__");
  Object* const dictionary = main == nullptr ? nullptr : python.PyModule_GetDict(main);
  if (dictionary == nullptr) {
    python.PyErr_Clear();
    return;
  }
  visitor.begin({{}, {}, dictionary});
  visit_dictionary(dictionary, visitor);
  visitor.end();
}

}  // namespace optrace_ops
