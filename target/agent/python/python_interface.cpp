#include "target/agent/python/python_interface.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <dlfcn.h>

namespace optrace::agent {
namespace {

template <typename T>
bool find_symbol(const char* name, T& place) {
  void* const address = dlsym(RTLD_DEFAULT, name);
  place = reinterpret_cast<T>(address);
  return address != nullptr;
}

}  // namespace

bool PythonInterface::find() {
  const bool threads = find_symbol("PyInterpreterState_Main", main_interpreter) &&
                       find_symbol("PyThreadState_GetInterpreter", interpreter_of) &&
                       find_symbol("PyInterpreterState_ThreadHead", first_thread) &&
                       find_symbol("PyThreadState_Next", next_thread) &&
                       find_symbol("PyThreadState_Get", current_thread) &&
                       find_symbol("PyGILState_GetThisThreadState", calling_thread) &&
                       find_symbol("PyThreadState_GetID", thread_id) &&
                       find_symbol("_PyEval_SetProfile", set_profile_of);
  if (!threads) set_profile_of = nullptr;
  find_symbol("_PyRuntime", runtime);
  find_symbol("PyFrame_GetLasti", frame_instruction);
  find_symbol("PyFrame_GetGlobals", frame_globals);
  find_symbol("PyFrame_GetVar", frame_variable);
  find_symbol("PyGC_Disable", gc_disable);
  find_symbol("PyGC_Enable", gc_enable);
  const bool found =
      find_symbol("Py_GetVersion", version) && find_symbol("PyBytes_AsString", bytes) &&
      find_symbol("PyBytes_Size", bytes_size) && find_symbol("PyThreadState_Get", running_thread) &&
      find_symbol("PyGILState_Ensure", gil_ensure) &&
      find_symbol("PyEval_AcquireThread", acquire_thread) &&
      find_symbol("PyGILState_Release", gil_release) &&
      find_symbol("Py_IsInitialized", is_initialized) &&
      find_symbol("PyEval_SetProfile", set_profile) && find_symbol("PyFrame_GetCode", frame_code) &&
      find_symbol("PyFrame_GetBack", frame_back) && find_symbol("PyEval_GetFrame", current_frame) &&
      find_symbol("PyFrame_GetLineNumber", frame_line) &&
      find_symbol("PyObject_GetAttrString", attribute) && find_symbol("PyObject_Type", type_of) &&
      find_symbol("PyType_IsSubtype", is_subtype) &&
      find_symbol("PyCFunction_GetSelf", function_self) &&
      find_symbol("PySys_GetObject", system_object) && find_symbol("PyTuple_Size", tuple_size) &&
      find_symbol("PyTuple_GetItem", tuple_item) &&
      find_symbol("PyUnicode_GetLength", text_length) &&
      find_symbol("PyUnicode_ReadChar", character) && find_symbol("PyDict_Next", next_entry) &&
      find_symbol("PyType_GetFlags", type_flags) &&
      find_symbol("PyFunction_GetCode", code_of_function) &&
      find_symbol("_PyObject_GetDictPtr", attributes_of) && find_symbol("PyLong_AsLong", number) &&
      find_symbol("PyErr_Fetch", error_fetch) && find_symbol("PyErr_Restore", error_restore) &&
      find_symbol("PyErr_Clear", error_clear) && find_symbol("Py_IncRef", take_reference) &&
      find_symbol("Py_DecRef", drop_reference) && find_symbol("_Py_NoneStruct", none) &&
      find_symbol("PyCFunction_Type", function_type) && find_symbol("PyModule_Type", module_type) &&
      find_symbol("PyCapsule_Type", capsule_type) && find_symbol("PyType_Type", type_type) &&
      find_symbol("PyBaseObject_Type", base_type) && find_symbol("PyCode_Type", code_type) &&
      find_symbol("PyFrame_Type", frame_type) &&
      find_symbol("PyFunction_Type", python_function_type) &&
      find_symbol("PyClassMethod_Type", class_method_type) &&
      find_symbol("PyStaticMethod_Type", static_method_type) &&
      find_symbol("PyProperty_Type", property_type) && find_symbol("PyCell_Type", cell_type) &&
      find_symbol("PyBytes_Type", bytes_type);
  return found && measure();
}

// A debug build may have longer headers. Their size is that of an `object` instance, which has no
// other fields.
bool PythonInterface::measure() {
  // Offset in a type after its header, following ob_size and tp_name.
  constexpr std::uint64_t kBasicSize = 16;
  const char* const text = version();
  minor = std::strncmp(text, "3.", 2) == 0
              ? static_cast<std::uint32_t>(std::strtoul(text + 2, nullptr, 10))
              : 0;
  for (const std::uint64_t size : {16UL, 32UL}) {
    header_size = size;
    if (field<std::uint64_t>(base_type, kBasicSize) == size) return true;
  }
  return false;
}

}  // namespace optrace::agent
