#include "target/op_recorder/tensors/python_variables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "target/op_recorder/tensors/python_functions.h"
#include "target/op_recorder/tensors/tensor_search.h"

namespace optrace_ops {
namespace {

// Frames of one look, and those of the program among them whose variables are visited.
constexpr int kMaxFrames = 128;
constexpr int kMaxOwnFrames = 8;
// Variables of one scope.
constexpr std::int64_t kMaxVariables = 4096;

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

std::vector<std::string> not_own;  // PythonSettings::not_own.
const FrameLayout* layout = nullptr;
// From 3.11 on, an argument that inner functions use has one place, which contains its cell.
bool one_place = false;
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

bool is_own(std::string_view file) {
  if (file.empty() || file.substr(0, 7) == "<frozen") return false;
  for (const char* const part : {"/site-packages/", "/dist-packages/", "/optrace_target/"})
    if (file.find(part) != std::string_view::npos) return false;
  for (const std::string& folder : not_own)
    if (file.substr(0, folder.size()) == folder) return false;
  return true;
}

void visit_dictionary(Object* dictionary, TensorSearch& search) {
  std::int64_t position = 0;
  std::int64_t left = kMaxVariables;
  Object* key = nullptr;
  Object* value = nullptr;
  while (left-- > 0 && python.PyDict_Next(dictionary, &position, &key, &value) != 0)
    search.visit_variable(text_of(key), value);
}

// Returns where the frame has its variables, or null.
const char* variables_in(Object* frame, Object* code) {
  if (layout == nullptr) return nullptr;
  const void* const at = layout->inner == 0 ? frame : field<const void*>(frame, layout->inner);
  if (at == nullptr || field<const void*>(at, layout->code) != code) return nullptr;
  return static_cast<const char*>(at) + layout->variables;
}

// Returns the names of the variables of a function's code, in the order in which frames have them:
// its own, those that inner functions use, and those of outer functions. The last two are in cells.
std::vector<Reference> names_of(Object* code) {
  std::vector<Reference> names;
  for (const char* const kind : {"co_varnames", "co_cellvars", "co_freevars"}) {
    const Reference list(python.PyObject_GetAttrString(code, kind));
    const std::int64_t count =
        list ? std::min(python.PyTuple_Size(list.get()), kMaxVariables) : std::int64_t{0};
    const std::size_t known = names.size();
    for (std::int64_t i = 0; i < count; ++i) {
      Object* const name = python.PyTuple_GetItem(list.get(), i);
      // Names are interned.
      const auto is_same = [&](const Reference& one) { return one.get() == name; };
      const auto end = names.begin() + static_cast<std::ptrdiff_t>(known);
      if (one_place && std::any_of(names.begin(), end, is_same)) continue;
      python.Py_IncRef(name);
      names.emplace_back(name);
    }
  }
  return names;
}

void visit_locals(Object* frame, Object* code, TensorSearch& search) {
  const char* const variables =
      python.PyFrame_GetVar == nullptr ? variables_in(frame, code) : nullptr;
  if (python.PyFrame_GetVar == nullptr && variables == nullptr) return;
  std::size_t place = 0;
  for (const Reference& name : names_of(code)) {
    Object* value = nullptr;
    if (variables == nullptr) {
      value = python.PyFrame_GetVar(frame, name.get());
    } else {
      value = field<Object*>(variables, place++ * sizeof(Object*));
      if (value == nullptr) continue;
      const Reference type(python.PyObject_Type(value));
      if (type.get() == python.PyCell_Type)
        value = python.PyCell_Get(value);
      else
        python.Py_IncRef(value);
    }
    const Reference held(value);
    if (held) search.visit_variable(text_of(name.get()), value);
  }
}

void visit_frame(Object* frame, Object* code, const std::string& file, VariableVisitor& visitor) {
  const std::string function = text_at(code, "co_name");
  if (function == "<module>") {
    const Reference globals(python.PyObject_GetAttrString(frame, "f_globals"));
    TensorSearch search(visitor, {file, {}, globals.get()});
    if (globals) visit_dictionary(globals.get(), search);
  } else {
    TensorSearch search(visitor, {file, function, frame});
    visit_locals(frame, code, search);
  }
}

}  // namespace

bool use_python(const PythonSettings& used) {
  if (!python.find()) return false;
  const char* const version = python.Py_GetVersion();
  if (std::strncmp(version, "3.", 2) != 0) return false;
  const int minor = std::atoi(version + 2);
  for (const FrameLayout& one : kLayouts)
    if (one.minor == minor) layout = &one;
  constexpr int kOnePlaceSince = 11;
  one_place = minor >= kOnePlaceSince;
  not_own = used.not_own;
  usable = use_tensors(used.tensor_type, used.sample);
  return usable;
}

PythonPlace look_at_python(VariableVisitor& visitor) {
  PythonPlace place;
  const PythonHeld held;
  if (!held) return place;
  place.has_variables = true;
  Object* const innermost = python.PyEval_GetFrame();
  if (innermost == nullptr) return place;
  python.Py_IncRef(innermost);
  Reference frame(innermost);
  int own = 0;
  for (int i = 0; frame && i < kMaxFrames && own < kMaxOwnFrames; ++i) {
    const Reference code(python.PyFrame_GetCode(frame.get()));
    if (const std::string file = text_at(code.get(), "co_filename"); is_own(file)) {
      ++own;
      if (place.file.empty()) {
        const int line = python.PyFrame_GetLineNumber(frame.get());
        place.file = file;
        place.line = line > 0 ? static_cast<std::uint32_t>(line) : 0;
      }
      visit_frame(frame.get(), code.get(), file, visitor);
    }
    frame = Reference(python.PyFrame_GetBack(frame.get()));
  }
  return place;
}

void look_at_main_module(VariableVisitor& visitor) {
  const PythonHeld held;
  if (!held) return;
  Object* const modules = python.PyImport_GetModuleDict();
  Object* const main =
      modules == nullptr ? nullptr : python.PyDict_GetItemString(modules, "__main__");
  Object* const dictionary = main == nullptr ? nullptr : python.PyModule_GetDict(main);
  if (dictionary == nullptr) {
    python.PyErr_Clear();
    return;
  }
  TensorSearch search(visitor, {{}, {}, dictionary});
  visit_dictionary(dictionary, search);
}

}  // namespace optrace_ops
