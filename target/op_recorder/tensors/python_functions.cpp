#include "target/op_recorder/tensors/python_functions.h"

#include <dlfcn.h>

namespace optrace_ops {
namespace {

template <typename Function>
bool find_symbol(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

#define OPTRACE_FIND(name) find_symbol(#name, name)

}  // namespace

PythonFunctions python;

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
         OPTRACE_FIND(PyObject_Type) && OPTRACE_FIND(PyObject_GenericGetDict) &&
         OPTRACE_FIND(PyType_GetFlags) && OPTRACE_FIND(PyType_IsSubtype) &&
         OPTRACE_FIND(PyList_Size) && OPTRACE_FIND(PyList_GetItem) &&
         OPTRACE_FIND(PyLong_AsLongLongAndOverflow) && OPTRACE_FIND(PyModule_Type) &&
         OPTRACE_FIND(PyUnicode_AsUTF8AndSize) && OPTRACE_FIND(PyDict_Next) &&
         OPTRACE_FIND(PyImport_GetModuleDict) && OPTRACE_FIND(PyDict_GetItemString) &&
         OPTRACE_FIND(PyModule_GetDict) && OPTRACE_FIND(PyTuple_Size) &&
         OPTRACE_FIND(PyTuple_GetItem) && OPTRACE_FIND(PyCell_Get) &&
         OPTRACE_FIND(PyLong_AsVoidPtr) && OPTRACE_FIND(PyErr_Fetch) &&
         OPTRACE_FIND(PyErr_Restore) && OPTRACE_FIND(PyErr_Clear) && OPTRACE_FIND(Py_IncRef) &&
         OPTRACE_FIND(Py_DecRef) && OPTRACE_FIND(Py_GetVersion) && OPTRACE_FIND(PyCell_Type) &&
         OPTRACE_FIND(PyCFunction_Type);
}

#undef OPTRACE_FIND

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

}  // namespace optrace_ops
