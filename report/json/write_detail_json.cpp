#include "report/json/write_detail_json.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/text/json_members.h"
#include "pytorch/values/values_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

template <typename Element, typename Write>
Json list_of(const std::vector<Element>& list, const Write& write) {
  Json json = Json::array();
  for (const Element& one : list) json.push_back(write(one));
  return json;
}

template <typename Element, typename Write>
void add_list(Json& object, const char* key, const std::vector<Element>& list, const Write& write) {
  if (!list.empty()) object[key] = list_of(list, write);
}

template <typename Element>
void add_list(Json& object, const char* key, const std::vector<Element>& list) {
  if (!list.empty()) object[key] = list;
}

// ---- Dispatcher frames ----

Json variant_json(const CallVariant& variant) {
  Json object = {{"calls", variant.calls}};
  if (variant.arguments) object["arguments"] = to_json(*variant.arguments);
  add_member(object, "key_set", variant.key_set);
  add_member(object, "dispatch_key", variant.dispatch_key);
  return object;
}

Json stored_tensor_json(const StoredTensor& tensor) {
  Json object = {{"shape", to_json(tensor.shape)},
                 {"strides", to_json(tensor.strides)},
                 {"dtype", tensor.dtype},
                 {"device", tensor.device},
                 {"requires_grad", tensor.requires_grad},
                 {"version", tensor.version},
                 {"storage", tensor.storage == 0 ? Json() : Json(tensor.storage)},
                 {"offset", tensor.offset}};
  add_member(object, "name", tensor.name);
  add_flag(object, "written", tensor.written);
  add_member(object, "relation", name_of(tensor.relation));
  add_member(object, "of", tensor.of);
  add_member(object, "bytes", tensor.new_bytes);
  return object;
}

Json stored_tensors_json(const StoredTensors& tensors) {
  Json object = {{"arguments", list_of(tensors.arguments, stored_tensor_json)},
                 {"results", list_of(tensors.results, stored_tensor_json)}};
  add_list(object, "copies", tensors.copies, [](const StorageCopy& copy) -> Json {
    return {{"from", copy.from}, {"to", copy.to}, {"reason", copy.reason}};
  });
  return object;
}

Json attention_backend_json(const AttentionBackend& backend) {
  Json object = {{"name", backend.name}, {"state", name_of(backend.state)}};
  add_list(object, "refusals", backend.refusals, [](const AttentionRefusal& refusal) {
    Json one = {{"message", refusal.message}};
    add_member(one, "file", refusal.file);
    add_member(one, "line", std::uint64_t{refusal.line});
    add_member(one, "check", refusal.check);
    return one;
  });
  return object;
}

void add_choice(Json& object, const DispatchChoice& choice) {
  add_member(object, "key_set", choice.key_set);
  add_member(object, "included", choice.included);
  add_member(object, "excluded", choice.excluded);
  add_member(object, "fallthrough", choice.fallthrough);
  if (choice.dispatch_key.empty()) return;
  object["dispatch_key"] = choice.dispatch_key;
  object["kernel"] = null_if_empty(choice.kernel);
  add_member(object, "registered_at", choice.registered_at);
  add_member(object, "dispatch", choice.dispatch);
}

void add_dispatch(Json& object, const DispatchDetail& dispatch) {
  object["step"] = name_of(dispatch.step);
  add_member(object, "schema", dispatch.schema);
  if (dispatch.arguments) object["arguments"] = to_json(*dispatch.arguments);
  if (dispatch.results) object["results"] = to_json(*dispatch.results);
  add_choice(object, dispatch.choice);
  add_member(object, "grad_mode", dispatch.grad_mode);
  add_member(object, "inference_mode", dispatch.inference_mode);
  add_member(object, "dispatch_modes", dispatch.dispatch_modes);
  add_list(object, "variants", dispatch.variants, variant_json);
  add_member(object, "variants_left_out", dispatch.variants_left_out);
  add_list(object, "new_tensors", dispatch.new_tensors, [](const NewTensors& made) -> Json {
    return {{"device", made.device}, {"count", made.count}, {"bytes", made.bytes}};
  });
  add_member(object, "repeated_calls", dispatch.repeated_calls);
  if (dispatch.tensors) object["tensors"] = stored_tensors_json(*dispatch.tensors);
  add_list(object, "attention_backends", dispatch.attention_backends, attention_backend_json);
}

// ---- Other frames ----

void add_node(Json& object, const NodeDetail& node) {
  object["node"] = node.node;
  add_member(object, "backward_of", node.backward_of);
  add_list(object, "formulas", node.formulas, [](const Formula& formula) -> Json {
    return {{"arguments", formula.arguments}, {"formula", formula.text}, {"line", formula.line}};
  });
}

Json configuration_json(const TritonConfiguration& configuration) {
  Json object = {{"constants", to_json(configuration.constants)}};
  add_member(object, "num_warps", configuration.num_warps);
  add_member(object, "num_stages", configuration.num_stages);
  add_member(object, "shared_memory", configuration.shared_memory);
  add_member(object, "registers", configuration.registers);
  add_member(object, "local_memory", configuration.local_memory);
  add_member(object, "chosen", configuration.chosen);
  return object;
}

Json origin_json(const Origin& origin) {
  Json object = Json::object();
  add_member(object, "op", origin.op);
  add_member(object, "node", origin.node);
  add_member(object, "file", origin.file);
  add_member(object, "line", std::uint64_t{origin.line});
  add_member(object, "module", origin.module);
  return object;
}

Json variable_json(const RecordedVariable& variable) {
  return {{"name", variable.name},
          {"values", list_of(variable.values, [](const CountedText& value) -> Json {
             return {{"value", value.value}, {"calls", value.calls}};
           })}};
}

Json value_json(const CountedResult& result) {
  if (const auto* const truth = std::get_if<bool>(&result.value)) return *truth;
  if (const auto* const number = std::get_if<std::int64_t>(&result.value)) return *number;
  return nullptr;
}

Json written(const ReturnedValues& returned) {
  Json object = {{"type", returned.type},
                 {"values", list_of(returned.values, [](const CountedResult& result) {
                    Json one = {{"value", value_json(result)}, {"calls", result.calls}};
                    add_member(one, "name", result.name);
                    return one;
                  })}};
  if (returned.values.size() == 1) {
    object["value"] = value_json(returned.values.front());
    add_member(object, "name", returned.values.front().name);
  }
  add_member(object, "calls_left_out", returned.calls_left_out);
  return object;
}

void add_processes(Json& object, const ProcessShare& share) {
  const char* const key = share.by_rank ? "ranks" : "processes";
  add_list(object, key, share.processes);
  add_list(object, share.by_rank ? "calls_by_rank" : "calls_by_process", share.calls,
           [&](const CallsOfProcesses& group) -> Json {
             if (group.processes.empty()) return {{"least", group.least}, {"most", group.most}};
             return {{"calls", group.least}, {key, group.processes}};
           });
}

}  // namespace

Json to_json(const Detail& detail) {
  Json object = Json::object();
  if (detail.dispatch) add_dispatch(object, *detail.dispatch);
  if (detail.node) add_node(object, *detail.node);
  add_member(object, "library", detail.library);
  add_member(object, "implementation", detail.implementation);
  add_flag(object, "emulated", detail.emulated);
  add_flag(object, "reads_device_memory", detail.reads_device_memory);
  add_list(object, "calls", detail.calls, [](const LibraryCall& call) { return to_json(call); });
  add_member(object, "device_work_left_out", detail.device_work_left_out);
  add_list(object, "launches", detail.launches, [](const Launch& one) { return to_json(one); });
  if (detail.duration) object["duration_ns"] = to_json(*detail.duration);
  add_list(object, "configurations", detail.configurations, configuration_json);
  add_member(object, "cpu_capability", detail.cpu_capability);
  if (!detail.origins.empty()) object["origins"] = to_json(detail.origins);
  add_flag(object, "generated", detail.generated);
  add_list(object, "compilations", detail.compilations);
  add_flag(object, "backward_graph", detail.backward_graph);
  add_list(object, "variables", detail.variables, variable_json);
  add_member(object, "python_name", detail.python_name);
  if (detail.returned) object["returned"] = to_json(*detail.returned);
  add_list(object, "not_seen", detail.not_seen, [](const DecisionNotSeen& decision) -> Json {
    return {{"name", decision.name}, {"line", decision.line}, {"exact", decision.exact}};
  });
  add_list(object, "call_lines", detail.call_lines);
  add_member(object, "threads", detail.threads);
  add_flag(object, "tail_call", detail.tail_call);
  add_flag(object, "inlined", detail.inlined);
  add_flag(object, "merged", detail.merged);
  add_flag(object, "calls_at_least", detail.calls_at_least);
  add_member(object, "workspace_queries", detail.workspace_queries);
  add_flag(object, "entered_before_recording", detail.entered_before_recording);
  add_processes(object, detail.processes);
  return object;
}

Json to_json(const StoredTensor& tensor) {
  return stored_tensor_json(tensor);
}

Json to_json(const std::vector<Origin>& origins) {
  return list_of(origins, origin_json);
}

Json to_json(const ReturnedValues& returned) {
  return written(returned);
}

Json to_json(const FrameTime& time) {
  if (!time.range) return {{"total", time.total}};
  return {
      {"total", time.total}, {"shortest", time.range->shortest}, {"longest", time.range->longest}};
}

}  // namespace optrace
