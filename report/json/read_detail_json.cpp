#include "report/json/read_detail_json.h"

#include <string>
#include <utility>
#include <vector>

#include "platform/text/json_fields.h"
#include "pytorch/values/values_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

/// Reads each object in a list.
template <typename Read>
auto all_of(const Json& list, const Read& read) {
  std::vector<decltype(read(list))> all;
  for (const Json& one : list)
    if (one.is_object()) all.push_back(read(one));
  return all;
}

std::optional<DispatchKeys> keys_at(const Json& object, const char* key) {
  if (!value_at(object, key).is_array()) return std::nullopt;
  return texts_at(object, key);
}

std::optional<std::vector<Argument>> arguments_in(const Json& object) {
  if (!value_at(object, "arguments").is_array()) return std::nullopt;
  return all_of(list_at(object, "arguments"), argument_of);
}

CallVariant variant_of(const Json& json) {
  return {count_at(json, "calls"), arguments_in(json), keys_at(json, "key_set"),
          text_at(json, "dispatch_key")};
}

StoredTensors stored_tensors_of(const Json& json) {
  const auto copy_of = [](const Json& copy) {
    return StorageCopy{count_at(copy, "from"), count_at(copy, "to"), text_at(copy, "reason")};
  };
  return {all_of(list_at(json, "arguments"), stored_tensor_of),
          all_of(list_at(json, "results"), stored_tensor_of),
          all_of(list_at(json, "copies"), copy_of)};
}

AttentionBackend attention_backend_of(const Json& json) {
  const auto refusal_of = [](const Json& refusal) {
    return AttentionRefusal{text_at(refusal, "message"), text_at(refusal, "file"),
                            line_at(refusal, "line"), text_at(refusal, "check")};
  };
  const std::string state = text_at(json, "state");
  return {text_at(json, "name"),
          state == "chosen"    ? BackendState::chosen
          : state == "refused" ? BackendState::refused
                               : BackendState::possible,
          all_of(list_at(json, "refusals"), refusal_of)};
}

DispatchDetail dispatch_of(const Json& json) {
  DispatchDetail dispatch;
  if (text_at(json, "step") == "redispatch") dispatch.step = DispatchStep::redispatch;
  dispatch.schema = text_at(json, "schema");
  dispatch.arguments = arguments_in(json);
  if (const Json& results = value_at(json, "results"); results.is_array()) {
    dispatch.results.emplace();
    for (const Json& result : results) dispatch.results->push_back(result_of(result));
  }
  dispatch.choice = {keys_at(json, "key_set"),       keys_at(json, "included"),
                     keys_at(json, "excluded"),      keys_at(json, "fallthrough"),
                     text_at(json, "dispatch_key"),  text_at(json, "kernel"),
                     text_at(json, "registered_at"), text_at(json, "dispatch")};
  dispatch.grad_mode = truth_at(json, "grad_mode");
  dispatch.inference_mode = truth_at(json, "inference_mode");
  dispatch.dispatch_modes = count_at(json, "dispatch_modes");
  dispatch.variants = all_of(list_at(json, "variants"), variant_of);
  dispatch.variants_left_out = count_at(json, "variants_left_out");
  dispatch.new_tensors = all_of(list_at(json, "new_tensors"), [](const Json& made) {
    return NewTensors{text_at(made, "device"), count_at(made, "count"), count_at(made, "bytes")};
  });
  dispatch.repeated_calls = count_at(json, "repeated_calls");
  if (const Json& tensors = value_at(json, "tensors"); tensors.is_object())
    dispatch.tensors = stored_tensors_of(tensors);
  dispatch.attention_backends = all_of(list_at(json, "attention_backends"), attention_backend_of);
  return dispatch;
}

NodeDetail node_of(const Json& json) {
  const auto formula_of = [](const Json& formula) {
    return Formula{texts_at(formula, "arguments"), text_at(formula, "formula"),
                   line_at(formula, "line")};
  };
  return {text_at(json, "node"), text_at(json, "backward_of"),
          all_of(list_at(json, "formulas"), formula_of)};
}

RecordedVariable variable_of(const Json& json) {
  const auto value_of = [](const Json& value) {
    return CountedText{text_at(value, "value"), count_at(value, "calls")};
  };
  return {text_at(json, "name"), all_of(list_at(json, "values"), value_of)};
}

CountedResult counted_result_of(const Json& json) {
  CountedResult result;
  const Json& value = value_at(json, "value");
  if (value.is_boolean())
    result.value = value.get<bool>();
  else if (value.is_number_integer())
    result.value = value.get<std::int64_t>();
  result.name = text_at(json, "name");
  result.calls = count_at(json, "calls");
  return result;
}

ReturnedValues returned_of(const Json& json) {
  return {text_at(json, "type"), all_of(list_at(json, "values"), counted_result_of),
          count_at(json, "calls_left_out")};
}

DecisionNotSeen decision_of(const Json& json) {
  return {text_at(json, "name"), line_at(json, "line"), flag_at(json, "exact")};
}

std::vector<std::uint64_t> numbers_at(const Json& object, const char* key) {
  std::vector<std::uint64_t> numbers;
  for (const Json& one : list_at(object, key))
    if (one.is_number_unsigned()) numbers.push_back(one.get<std::uint64_t>());
  return numbers;
}

ProcessShare processes_of(const Json& json) {
  ProcessShare share;
  share.by_rank = json.contains("ranks") || json.contains("calls_by_rank");
  const char* const key = share.by_rank ? "ranks" : "processes";
  share.processes = numbers_at(json, key);
  share.calls = all_of(
      list_at(json, share.by_rank ? "calls_by_rank" : "calls_by_process"), [&](const Json& group) {
        const auto calls = number_at(group, "calls");
        return CallsOfProcesses{calls.value_or(count_at(group, "least")),
                                calls.value_or(count_at(group, "most")), numbers_at(group, key)};
      });
  return share;
}

}  // namespace

StoredTensor stored_tensor_of(const Json& json) {
  StoredTensor tensor;
  tensor.name = text_at(json, "name");
  tensor.shape = sizes_at(json, "shape");
  tensor.strides = sizes_at(json, "strides");
  tensor.dtype = text_at(json, "dtype");
  tensor.device = text_at(json, "device");
  tensor.version = count_at(json, "version");
  tensor.storage = count_at(json, "storage");
  if (const Json& offset = value_at(json, "offset"); offset.is_number_integer())
    tensor.offset = offset.get<std::int64_t>();
  tensor.requires_grad = flag_at(json, "requires_grad");
  tensor.written = flag_at(json, "written");
  tensor.relation = relation_named(text_at(json, "relation"));
  tensor.of = text_at(json, "of");
  tensor.new_bytes = number_at(json, "bytes");
  return tensor;
}

TritonConfiguration configuration_of(const Json& json) {
  return {constants_of(object_at(json, "constants")),
          number_at(json, "num_warps"),
          number_at(json, "num_stages"),
          number_at(json, "shared_memory"),
          number_at(json, "registers"),
          number_at(json, "local_memory"),
          truth_at(json, "chosen")};
}

Origin origin_of(const Json& json) {
  return {text_at(json, "op"), text_at(json, "node"), text_at(json, "file"), line_at(json, "line"),
          text_at(json, "module")};
}

Detail detail_of(const Json& json) {
  Detail detail;
  if (!json.is_object()) return detail;
  if (!text_at(json, "step").empty()) detail.dispatch = dispatch_of(json);
  if (!text_at(json, "node").empty()) detail.node = node_of(json);
  detail.library = text_at(json, "library");
  detail.implementation = text_at(json, "implementation");
  detail.emulated = flag_at(json, "emulated");
  detail.reads_device_memory = flag_at(json, "reads_device_memory");
  detail.calls = all_of(list_at(json, "calls"), library_call_of);
  detail.device_work_left_out = count_at(json, "device_work_left_out");
  detail.launches = all_of(list_at(json, "launches"), launch_of);
  detail.duration = duration_at(json, "duration_ns");
  detail.configurations = all_of(list_at(json, "configurations"), configuration_of);
  detail.cpu_capability = text_at(json, "cpu_capability");
  detail.origins = all_of(list_at(json, "origins"), origin_of);
  detail.generated = flag_at(json, "generated");
  detail.compilations = texts_at(json, "compilations");
  detail.backward_graph = flag_at(json, "backward_graph");
  detail.variables = all_of(list_at(json, "variables"), variable_of);
  detail.python_name = text_at(json, "python_name");
  if (const Json& returned = value_at(json, "returned"); returned.is_object())
    detail.returned = returned_of(returned);
  detail.not_seen = all_of(list_at(json, "not_seen"), decision_of);
  for (const std::uint64_t line : numbers_at(json, "call_lines"))
    detail.call_lines.push_back(static_cast<std::uint32_t>(line));
  detail.threads = count_at(json, "threads");
  detail.tail_call = flag_at(json, "tail_call");
  detail.inlined = flag_at(json, "inlined");
  detail.merged = flag_at(json, "merged");
  detail.calls_at_least = flag_at(json, "calls_at_least");
  detail.workspace_queries = count_at(json, "workspace_queries");
  detail.entered_before_recording = flag_at(json, "entered_before_recording");
  detail.processes = processes_of(json);
  return detail;
}

}  // namespace optrace
