#include "target/op_recorder/tensors/saved_variables.h"

#include <cstddef>
#include <optional>

#include <ATen/core/Tensor.h>

#include "target/op_recorder/tensors/tensor_log.h"
#include "target/recorder/agent_functions.h"

namespace optrace_ops {
namespace {

void* construct = nullptr;
void* construct_optional = nullptr;

void note(const at::Tensor& tensor) {
  if (tensor.defined()) tensor_log::record_saved(*tensor.unsafeGetTensorImpl());
}

// The constructors have the same parameters (torch/csrc/autograd/saved_variable.h).

void construct_and_note(void* self, const at::Tensor& tensor, bool is_output,
                        bool is_inplace_on_view) {
  note(tensor);
  reinterpret_cast<decltype(&construct_and_note)>(construct)(self, tensor, is_output,
                                                             is_inplace_on_view);
}

void construct_optional_and_note(void* self, const std::optional<at::Tensor>& tensor,
                                 bool is_output, bool is_inplace_on_view) {
  if (tensor) note(*tensor);
  reinterpret_cast<decltype(&construct_optional_and_note)>(construct_optional)(
      self, tensor, is_output, is_inplace_on_view);
}

const optrace_agent_redirection kRedirections[] = {
    {"_ZN5torch8autograd13SavedVariableC1ERKN2at6TensorEbb",
     reinterpret_cast<void*>(&construct_and_note), &construct},
    {"_ZN5torch8autograd13SavedVariableC1ERKSt8optionalIN2at6TensorEEbb",
     reinterpret_cast<void*>(&construct_optional_and_note), &construct_optional},
};
constexpr std::size_t kRedirectionCount = sizeof kRedirections / sizeof *kRedirections;

}  // namespace

void watch_saved_variables() {
  // Functions of autograd that a program defines are in other libraries than ops.
  redirect(nullptr, kRedirections, kRedirectionCount);
}

void leave_saved_variables() {
  restore(kRedirections, kRedirectionCount);
}

}  // namespace optrace_ops
