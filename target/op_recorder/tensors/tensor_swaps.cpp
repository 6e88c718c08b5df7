#include "target/op_recorder/tensors/tensor_swaps.h"

#include <cstddef>
#include <cstring>

#include "target/op_recorder/tensors/python_functions.h"
#include "target/op_recorder/tensors/tensor_log.h"

namespace optrace_ops {
namespace {

using SwapFunction = Object* (*)(Object* self, Object* arguments);

// PyMethodDef (Include/methodobject.h).
struct MethodDefinition {
  const char* name;
  SwapFunction function;
  int flags;
};
constexpr int kTakesTuple = 1;                     // METH_VARARGS
constexpr std::size_t kDefinitionInFunction = 16;  // In a PyCFunctionObject.
constexpr const char* kName = "_swap_tensor_impl";

MethodDefinition* definition = nullptr;  // Of torch._C._swap_tensor_impl; null: unknown.
SwapFunction original = nullptr;

Object* drop_and_swap(Object* self, Object* arguments) {
  tensor_log::drop_tensors();
  return original(self, arguments);
}

}  // namespace

void find_swap_function() {
  Object* const modules = python.PyImport_GetModuleDict();
  Object* const module =
      modules == nullptr ? nullptr : python.PyDict_GetItemString(modules, "torch._C");
  Object* const members = module == nullptr ? nullptr : python.PyModule_GetDict(module);
  Object* const function =
      members == nullptr ? nullptr : python.PyDict_GetItemString(members, kName);
  python.PyErr_Clear();
  if (definition != nullptr || function == nullptr) return;
  const Reference type(python.PyObject_Type(function));
  if (type.get() != python.PyCFunction_Type) return;
  auto* const found = field<MethodDefinition*>(function, kDefinitionInFunction);
  if (found == nullptr || found->name == nullptr || std::strcmp(found->name, kName) != 0 ||
      found->flags != kTakesTuple)
    return;
  original = found->function;
  definition = found;
}

void watch_swaps() {
  if (definition != nullptr)
    __atomic_store_n(&definition->function, &drop_and_swap, __ATOMIC_RELEASE);
}

void leave_swaps() {
  if (definition != nullptr && definition->function == &drop_and_swap)
    __atomic_store_n(&definition->function, original, __ATOMIC_RELEASE);
}

}  // namespace optrace_ops
