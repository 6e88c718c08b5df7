#include "report/model/op_call.h"

#include <algorithm>
#include <variant>

#include "pytorch/names/dtypes.h"

namespace optrace {
namespace {

std::uint64_t bytes_of(const TensorFacts& tensor) {
  if (!tensor.shape) return 0;
  std::uint64_t bytes = element_bytes(tensor.dtype);
  for (const std::int64_t length : *tensor.shape)
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes)) return 0;
  return bytes;
}

}  // namespace

bool is_op_call(const Frame& frame) {
  return frame.detail->dispatch && frame.detail->dispatch->step == DispatchStep::call;
}

bool is_call_of(const Frame& frame, std::string_view op) {
  return is_op_call(frame) && frame.op == op;
}

std::uint64_t calls_with_work(const Frame& frame) {
  return frame.calls - std::min(frame.calls, frame.detail->workspace_queries);
}

std::vector<OpCalls> op_calls(const Frame& frame) {
  std::vector<OpCalls> kinds;
  if (!frame.detail->dispatch) return kinds;
  const DispatchDetail& dispatch = *frame.detail->dispatch;
  kinds.reserve(dispatch.variants.size() + 1);
  for (const CallVariant& variant : dispatch.variants)
    kinds.push_back({variant.calls, variant.arguments, variant.dispatch_key});
  if (kinds.empty())
    kinds.push_back({frame.calls, dispatch.arguments, dispatch.choice.dispatch_key});
  return kinds;
}

std::vector<const TensorFacts*> tensors_in(const std::vector<Argument>& arguments) {
  std::vector<const TensorFacts*> tensors;
  for (const Argument& argument : arguments)
    for (const TensorFacts* const tensor : tensors_in(argument.value)) tensors.push_back(tensor);
  return tensors;
}

std::vector<const TensorFacts*> tensors_in(const OpCalls& calls) {
  return calls.arguments ? tensors_in(*calls.arguments) : std::vector<const TensorFacts*>();
}

std::vector<const TensorFacts*> tensors_in(const Value& value) {
  std::vector<const TensorFacts*> tensors;
  const auto add = [&](const Scalar& scalar) {
    if (const auto* const tensor = std::get_if<TensorFacts>(&scalar)) tensors.push_back(tensor);
  };
  if (const auto* const scalar = std::get_if<Scalar>(&value))
    add(*scalar);
  else
    for (const Scalar& one : std::get<std::vector<Scalar>>(value)) add(one);
  return tensors;
}

void add_new_tensors(const std::vector<NewTensors>& more, std::vector<NewTensors>& sums) {
  for (const NewTensors& one : more) {
    auto sum = std::ranges::find(sums, one.device, &NewTensors::device);
    if (sum == sums.end()) sum = sums.insert(sum, {one.device, 0, 0});
    sum->count += one.count;
    sum->bytes += one.bytes;
  }
}

void add_new_tensors(const std::vector<ResultOrList>& results, std::uint64_t calls,
                     std::vector<NewTensors>& sums) {
  for (const Result* const result : results_in(results)) {
    const auto* const tensor = std::get_if<TensorFacts>(&result->value);
    if (tensor != nullptr && result->relation == ResultRelation::fresh)
      add_new_tensors({{tensor->device, calls, calls * bytes_of(*tensor)}}, sums);
  }
}

std::vector<const Result*> results_in(const std::vector<ResultOrList>& results) {
  std::vector<const Result*> all;
  for (const ResultOrList& result : results)
    if (const auto* const single = std::get_if<Result>(&result))
      all.push_back(single);
    else
      for (const Result& one : std::get<std::vector<Result>>(result)) all.push_back(&one);
  return all;
}

std::vector<const Result*> results_of(const DispatchDetail& call) {
  return call.results ? results_in(*call.results) : std::vector<const Result*>();
}

}  // namespace optrace
