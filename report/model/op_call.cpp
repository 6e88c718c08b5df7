#include "report/model/op_call.h"

#include <variant>

namespace optrace {

bool is_op_call(const Frame& frame) {
  return frame.detail->dispatch && frame.detail->dispatch->step == DispatchStep::call;
}

bool is_call_of(const Frame& frame, std::string_view op) {
  return is_op_call(frame) && frame.op == op;
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

std::vector<const Result*> results_of(const Frame& frame) {
  std::vector<const Result*> results;
  if (!frame.detail->dispatch->results) return results;
  for (const ResultOrList& result : *frame.detail->dispatch->results)
    if (const auto* const single = std::get_if<Result>(&result))
      results.push_back(single);
    else
      for (const Result& one : std::get<std::vector<Result>>(result)) results.push_back(&one);
  return results;
}

}  // namespace optrace
