#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>

#include "target/op_recorder/tensors/python_functions.h"
#include "target/op_recorder/tensors/python_variables.h"

namespace optrace_ops {

/// Call it first, with the GIL held. Keeps a reference to `tensor_type`, which is torch.Tensor;
/// `sample` is an instance of it. Returns false if the layout of this torch's tensors is unknown.
bool use_tensors(Object* tensor_type, Object* sample);

/// Visits the variables of one scope that are tensors or contain some: in dictionaries, lists and
/// tuples, and in the attributes of objects. A tensor that belongs to a module has the name that
/// `named_parameters` gives it: `model.fc1.weight`. A gradient is an attribute of its tensor,
/// `model.fc1.weight.grad`. No Python code runs: attributes are read from
/// the object's own dictionary and its `__slots__`, so that neither properties nor `__getattr__`
/// are called, and keys are neither hashed nor compared. Depth and number of values are limited.
/// Call with the GIL held.
class TensorSearch {
 public:
  TensorSearch(VariableVisitor& visitor, const PythonScope& scope);
  ~TensorSearch();
  TensorSearch(const TensorSearch&) = delete;
  TensorSearch& operator=(const TensorSearch&) = delete;

  void visit_variable(std::string_view name, Object* value);

 private:
  void visit_value(Object* value, int depth, int modules);
  void visit_gradient(const c10::TensorImpl& tensor);
  void visit_items(Object* list, bool is_tuple, int depth);
  void visit_keys(Object* dictionary, int depth);
  void visit_attributes(Object* object, int depth, int modules);
  void visit_members(Object* dictionary, int depth, int modules);
  void visit_slots(Object* object, int depth, int modules);
  template <typename Visit>
  void with_suffix(std::string_view before, std::string_view text, std::string_view after,
                   const Visit& visit);
  bool take_one();

  VariableVisitor& visitor_;
  bool searches_nested_ = false;
  std::string name_;                        // Of the value that is visited.
  std::size_t nested_ = 0;                  // Values that were looked at.
  std::size_t tensors_ = 0;                 // Those of them that are tensors.
  std::unordered_set<const Object*> seen_;  // Containers and objects.
};

}  // namespace optrace_ops
