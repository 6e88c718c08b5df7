#include "target/op_recorder/tensors/tensor_search.h"

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/core/UndefinedTensorImpl.h>

namespace optrace_ops {
namespace {

// Limits for one scope.
constexpr std::size_t kMaxNested = 32768;
constexpr std::size_t kMaxTensors = 4096;
constexpr std::int64_t kMaxItems = 1024;  // Of one container.
constexpr int kMaxDepth = 4;              // Containers and objects in each other.
constexpr int kMaxModules = 32;           // Modules in modules, which do not count for the depth.
constexpr std::size_t kMaxName = 256;

// Bits of PyType_GetFlags (Include/object.h).
constexpr unsigned long kHeapType = 1UL << 9U;
constexpr unsigned long kLong = 1UL << 24U;
constexpr unsigned long kList = 1UL << 25U;
constexpr unsigned long kTuple = 1UL << 26U;
constexpr unsigned long kText = 1UL << 28U;
constexpr unsigned long kDictionary = 1UL << 29U;
constexpr unsigned long kType = 1UL << 31U;

// A slot of a class: PyMemberDef (Include/descrobject.h).
struct Slot {
  const char* name;
  int type;
  std::int64_t offset;  // From the start of the object.
  int flags;
  const char* text;
};
constexpr int kObjectSlot = 16;  // Py_T_OBJECT_EX: a PyObject*, null if it was not set.
constexpr int kMaxClasses = 64;  // In the inheritance of one object.

// Where a class has its slots and its base (Include/cpython/object.h, 3.9 to 3.14).
constexpr std::size_t kSlotsInType = 240;
constexpr std::size_t kBaseInType = 256;
bool knows_slots = false;

Object* tensor_class = nullptr;
std::size_t tensor_place = 0;  // Where a tensor object has the pointer to its TensorImpl.

unsigned long flags_of(Object* object) {
  const Reference type(python.PyObject_Type(object));
  return python.PyType_GetFlags(type.get());
}

bool is_a(Object* object, Object* base) {
  const Reference type(python.PyObject_Type(object));
  return python.PyType_IsSubtype(type.get(), base) != 0;
}

// Returns true for names such as `__builtins__`.
bool is_of_python(std::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
}

// Returns null for a tensor object without a tensor.
const c10::TensorImpl* tensor_in(Object* object) {
  const auto* const tensor = field<const c10::TensorImpl*>(object, tensor_place);
  const bool defined = tensor != c10::UndefinedTensorImpl::singleton();
  return defined ? tensor : nullptr;
}

}  // namespace

bool use_tensors(Object* tensor_type, Object* sample) {
  const Reference base(python.PyObject_GetAttrString(tensor_type, "__base__"));
  knows_slots = base && field<Object*>(tensor_type, kBaseInType) == base.get();
  // A getter of C.
  const Reference address(python.PyObject_GetAttrString(sample, "_cdata"));
  if (!address) return false;
  const void* const tensor = python.PyLong_AsVoidPtr(address.get());
  if (tensor == nullptr) {
    python.PyErr_Clear();
    return false;
  }
  // After the object's head (THPVariable in torch/csrc/autograd/python_variable.h): an at::Tensor,
  // or a c10::MaybeOwned of one.
  for (const std::size_t place : {std::size_t{16}, std::size_t{24}}) {
    if (field<const void*>(sample, place) != tensor) continue;
    tensor_place = place;
    if (tensor_class == nullptr) python.Py_IncRef(tensor_type);
    tensor_class = tensor_type;
    return true;
  }
  return false;
}

TensorSearch::TensorSearch(VariableVisitor& visitor, const PythonScope& scope)
    : visitor_(visitor), searches_nested_(visitor.begin(scope)) {}

TensorSearch::~TensorSearch() {
  visitor_.end(nested_);
}

void TensorSearch::visit_variable(std::string_view name, Object* value) {
  if (name.empty() || name.size() > kMaxName || is_of_python(name)) return;
  name_ = name;
  visit_value(value, 0, 0);
}

void TensorSearch::visit_value(Object* value, int depth, int modules) {
  const unsigned long flags = flags_of(value);
  const bool may_have_attributes = (flags & kHeapType) != 0 && (flags & kType) == 0;
  if (may_have_attributes && is_a(value, tensor_class)) {
    const c10::TensorImpl* const tensor = tensor_in(value);
    if (tensor == nullptr || (depth + modules > 0 && tensors_++ >= kMaxTensors)) return;
    visitor_.add({name_, tensor, depth + modules > 0});
    if (searches_nested_) visit_gradient(*tensor);
    return;
  }
  if (!searches_nested_ || depth >= kMaxDepth) return;
  if ((flags & kDictionary) != 0)
    visit_keys(value, depth + 1);
  else if ((flags & (kList | kTuple)) != 0)
    visit_items(value, (flags & kTuple) != 0, depth + 1);
  else if (may_have_attributes && !is_a(value, python.PyModule_Type))
    visit_attributes(value, depth + 1, modules);
}

void TensorSearch::visit_gradient(const c10::TensorImpl& tensor) {
  const c10::TensorImpl* const gradient = tensor.grad().unsafeGetTensorImpl();
  if (gradient == c10::UndefinedTensorImpl::singleton() || !take_one()) return;
  with_suffix(".grad", "", "", [&] { visitor_.add_gradient(name_, gradient); });
}

// Counts a value; returns false if there were too many.
bool TensorSearch::take_one() {
  if (nested_ == kMaxNested) return false;
  ++nested_;
  return true;
}

template <typename Visit>
void TensorSearch::with_suffix(std::string_view before, std::string_view text,
                               std::string_view after, const Visit& visit) {
  const std::size_t size = name_.size();
  if (size + before.size() + text.size() + after.size() > kMaxName) return;
  ((name_ += before) += text) += after;
  visit();
  name_.resize(size);
}

void TensorSearch::visit_items(Object* list, bool is_tuple, int depth) {
  if (!seen_.insert(list).second) return;
  const std::int64_t size =
      std::min(is_tuple ? python.PyTuple_Size(list) : python.PyList_Size(list), kMaxItems);
  for (std::int64_t i = 0; i < size && take_one(); ++i) {
    Object* const item =
        is_tuple ? python.PyTuple_GetItem(list, i) : python.PyList_GetItem(list, i);
    if (item == nullptr) {
      python.PyErr_Clear();
      return;
    }
    with_suffix("[", std::to_string(i), "]", [&] { visit_value(item, depth, 0); });
  }
}

void TensorSearch::visit_keys(Object* dictionary, int depth) {
  if (!seen_.insert(dictionary).second) return;
  std::int64_t position = 0;
  std::int64_t left = kMaxItems;
  Object* key = nullptr;
  Object* value = nullptr;
  while (left-- > 0 && python.PyDict_Next(dictionary, &position, &key, &value) != 0 && take_one()) {
    const unsigned long flags = flags_of(key);
    if ((flags & kText) != 0) {
      with_suffix("['", text_of(key), "']", [&] { visit_value(value, depth, 0); });
    } else if ((flags & kLong) != 0) {
      int overflow = 0;
      const long long number = python.PyLong_AsLongLongAndOverflow(key, &overflow);
      if (overflow != 0) continue;
      with_suffix("[", std::to_string(number), "]", [&] { visit_value(value, depth, 0); });
    }
  }
}

void TensorSearch::visit_attributes(Object* object, int depth, int modules) {
  if (!seen_.insert(object).second) return;
  visit_slots(object, depth, modules);
  // Up to 3.9, a new dictionary could start a garbage collection, which runs Python code.
  if (python.PyGC_Disable == nullptr) return;
  const Reference attributes(python.PyObject_GenericGetDict(object, nullptr));
  if (attributes) visit_members(attributes.get(), depth, modules);
}

// Visits the `__slots__` of an object's class and of its bases. They are read where the object has
// them: a descriptor of the same name in the class may be the program's.
void TensorSearch::visit_slots(Object* object, int depth, int modules) {
  if (!knows_slots) return;
  const Reference type(python.PyObject_Type(object));
  const Object* at = type.get();
  for (int left = kMaxClasses; at != nullptr && left > 0; --left) {
    if ((python.PyType_GetFlags(const_cast<Object*>(at)) & kHeapType) == 0) return;
    for (const auto* slot = field<const Slot*>(at, kSlotsInType);
         slot != nullptr && slot->name != nullptr; ++slot) {
      if (slot->type != kObjectSlot || slot->offset <= 0 || is_of_python(slot->name)) continue;
      auto* const value = field<Object*>(object, static_cast<std::size_t>(slot->offset));
      if (value == nullptr) continue;
      if (!take_one()) return;
      with_suffix(".", slot->name, "", [&] { visit_value(value, depth, modules); });
    }
    at = field<const Object*>(at, kBaseInType);
  }
}

// Visits the attributes of an object. The parameters, buffers and modules of a torch.nn.Module are
// in dictionaries among its attributes, and are its attributes, too.
void TensorSearch::visit_members(Object* dictionary, int depth, int modules) {
  std::int64_t position = 0;
  std::int64_t left = kMaxItems;
  Object* key = nullptr;
  Object* value = nullptr;
  while (left-- > 0 && python.PyDict_Next(dictionary, &position, &key, &value) != 0 && take_one()) {
    const std::string_view name = (flags_of(key) & kText) != 0 ? text_of(key) : std::string_view();
    if (name.empty() || is_of_python(name)) continue;
    const bool is_dictionary = (flags_of(value) & kDictionary) != 0;
    if (is_dictionary && (name == "_parameters" || name == "_buffers")) {
      visit_members(value, depth, modules);
    } else if (is_dictionary && name == "_modules") {
      if (modules < kMaxModules) visit_members(value, depth - 1, modules + 1);
    } else {
      with_suffix(".", name, "", [&] { visit_value(value, depth, modules); });
    }
  }
}

}  // namespace optrace_ops
