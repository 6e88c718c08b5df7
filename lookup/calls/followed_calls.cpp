#include "lookup/calls/followed_calls.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "lookup/locate/locate_query.h"
#include "platform/text/glob.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/names/op_name.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Beginnings of nested names (after `_ZN` and qualifiers) that are not followed: checks,
// containers, tensors' accessors and tensor iterators. None of them does work of its own.
constexpr auto kScopesNotFollowed = std::to_array<std::string_view>({
    "3c10",
    "S",  // std::
    "9__gnu_cxx",
    "2at10TensorBase",
    "2at14TensorIterator",
    "2at18TensorIteratorBase",
    "2at20TensorIteratorConfig",
    "2at9TensorArg",
    "2at17TensorGeometry",
    "2at7Context",
    "2at13globalContext",
    "2at8internal",
    "2at15namedinference",
    "2at16NoNamesGuard",
    "2at4impl",
    "2at6detail",
    "2at13DeprecatedTypeProperties",
    "2at9Generator",
    "2at7TracerType",
    "2at4meta",
    "5torch3jit6tracer",
    "5torch8autograd12VariableInfo",
    "5torch8autograd13SavedVariable",
    "2at6native13resize_output",
    "2at6native16resize_impl_",
    "2at6native17resize_bytes_",
    "2at6native21maybe_resize_storage_",
    "6caffe28TypeMeta",
    "3fmt",
    "8nlohmann",
    "8pybind11",
});

// Ops with which kernels allocate, copy and inspect tensors. Following them would lead from every
// op to the kernels of copy_ and fill_.
constexpr auto kHousekeepingOps = std::to_array<std::string_view>({
    "empty*",
    "new_*",
    "*_like",
    "zeros",
    "ones",
    "full",
    "contiguous",
    "clone",
    "copy_",
    "_copy_from*",
    "to",
    "_to_copy",
    "_to_cpu",
    "type_as",
    "resize_*",
    "resize_as_*",
    "set_",
    "fill_",
    "zero_",
    "item",
    "is_*",
    "equal",
    "arange",
    "range",
    "lift*",
    "detach*",
    "alias*",
    "expand*",
    "view*",
    "reshape*",
    "_reshape*",
    "as_strided*",
    "squeeze*",
    "unsqueeze*",
    "select",
    "narrow",
    "transpose*",
    "permute",
    "slice*",
    "t",
    "t_",
    "movedim",
    "flatten",
    "unflatten",
    "size",
    "stride",
    "numel",
    "scalar_tensor",
    "_unsafe_*",
    "split*",
    "chunk",
    "unbind",
    "conj",
    "_conj*",
    "resolve_*",
    "_neg_view",
    "real",
    "imag",
    "allclose",
    "output_nr",
    "_version",
    "result_type",
    "can_cast",
    "promote_types",
    "cpu",
    "cuda",
    "_efficientzerotensor",
    "_local_scalar_dense",
    "_nested_tensor_*",
    "_assert_*",
    "_use_cudnn_ctc_loss",
});

}  // namespace

bool is_followed(std::string_view symbol) {
  const std::string_view name = nested_name(symbol);
  if (name.empty()) return symbol.starts_with("_Z") && !symbol.starts_with("_ZS");
  constexpr std::string_view kTensor = "2at6Tensor";
  if (name.starts_with(kTensor) &&
      (name.size() == kTensor.size() || name[kTensor.size()] < '0' || name[kTensor.size()] > '9'))
    return name.substr(kTensor.size()).starts_with("ix");
  return std::ranges::none_of(kScopesNotFollowed,
                              [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_housekeeping_op(std::string_view name) {
  const OpName parts = split_op_name(name);
  return std::ranges::any_of(
      kHousekeepingOps, [&](std::string_view row) { return matches_name_glob(parts.base, row); });
}

bool is_housekeeping_function(std::string_view symbol) {
  constexpr std::string_view kScope = "2at6native";
  if (!nested_name(symbol).starts_with(kScope)) return false;
  const std::vector<std::string> parts = symbol_components(symbol);
  return parts.size() == 3 && is_housekeeping_op(parts.back());
}

bool leads_to_work(std::string_view op) {
  const OpName parts = split_op_name(op);
  return !parts.base.starts_with("empty") && !parts.base.starts_with("new_") &&
         !parts.base.starts_with("resize") && !parts.base.starts_with("is_");
}

std::string_view library_of_callee(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return library_name(symbol);
  // C++ overloads declared in a library's header: cublasGemmEx.
  if (symbol.size() > 2 && symbol[2] >= '1' && symbol[2] <= '9') {
    const std::string name = qualified_name(symbol);
    const std::string_view library = library_name(name);
    return library.starts_with("cu") ? library : std::string_view();
  }
  const std::string_view name = nested_name(symbol);
  for (const std::string_view space : {"5ideep", "4dnnl", "6fbgemm"})
    if (name.starts_with(space)) return library_name(qualified_name(symbol));
  return {};
}

}  // namespace optrace
