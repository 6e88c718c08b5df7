#include <utility>

#include <nlohmann/json.hpp>

#include "platform/text/json_writer.h"
#include "report/json/write_detail_json.h"
#include "report/tensors/tensors_output.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

Json line_json(const LoggedCall* call) {
  if (call == nullptr) return {};
  Json object = {{"op", call->name}, {"call", call->number}, {"file", nullptr}, {"line", nullptr}};
  if (call->line.line != 0) {
    object["file"] = call->line.file;
    object["line"] = call->line.line;
  }
  return object;
}

Json copy_json(const ReasonedCopy& copy) {
  return {{"from", copy.copy.from},
          {"to", copy.copy.to},
          {"reason", copy.copy.reason},
          {"by", line_json(copy.asked)},
          {"through", copy.through}};
}

Json list_of(const std::vector<ReasonedCopy>& copies) {
  Json list = Json::array();
  for (const ReasonedCopy& copy : copies) list.push_back(copy_json(copy));
  return list;
}

Json list_of(const std::vector<StoredTensor>& tensors) {
  Json list = Json::array();
  for (const StoredTensor& tensor : tensors) list.push_back(to_json(tensor));
  return list;
}

Json history_json(const TensorHistory& history) {
  const LoggedVariable& variable = *history.variable;
  Json shared = Json::array();
  for (const SharedMemory& one : history.shared)
    shared.push_back({{"name", full_name(*one.variable)},
                      {"same_tensor", one.same_tensor},
                      {"offset", one.variable->tensor.offset}});
  Json steps = Json::array();
  for (const HistoryStep& step : history.steps) {
    Json object = line_json(step.call);
    object["arguments"] = list_of(step.call->arguments);
    object["results"] = list_of(step.call->results);
    object["copies"] = list_of(step.copies);
    steps.push_back(std::move(object));
  }
  return {{"name", variable.name},
          {"function", variable.function.empty() ? Json() : Json(variable.function)},
          {"file", variable.file},
          {"identity", variable.identity},
          {"tensor", to_json(variable.tensor)},
          {"at_end", history.at_end},
          {"shared_with", std::move(shared)},
          {"copied_from", list_of(history.copied_from)},
          {"copied_to", list_of(history.copied_to)},
          {"steps", std::move(steps)},
          {"has_all_steps", history.has_all_steps}};
}

Json saved_json(const TensorLog& log, const LoggedStorage& storage) {
  Json list = Json::array();
  for (const std::uint64_t number : storage.saved) {
    const LoggedCall* const call = log.call(number);
    if (call == nullptr) continue;
    const std::string node = log.node_made_by(*call);
    list.push_back({{"op", call->name},
                    {"node", node.empty() ? Json() : Json(node)},
                    {"by", line_json(log.outermost(number))}});
  }
  return list;
}

Json storages_json(const TensorLog& log) {
  const auto names = names_of_storages(log);
  Json list = Json::array();
  for (const auto& [number, storage] : log.storages) {
    const auto named = names.find(number);
    list.push_back(
        {{"number", number},
         {"bytes", storage.bytes},
         {"largest_bytes", storage.largest},
         {"device", storage.device},
         {"existed", storage.existed},
         {"born", line_json(log.outermost(storage.born))},
         {"freed_during", line_json(log.outermost(storage.ended_during))},
         {"freed_before", line_json(log.outermost(storage.ended_before))},
         {"at_end", !storage.ended || (storage.ended_during == 0 && storage.ended_before == 0)},
         {"saved", saved_json(log, storage)},
         {"names", named == names.end() ? Json::array() : Json(named->second)}});
  }
  return list;
}

Json answer_json(const TensorsAnswer& answer) {
  Json object = {{"schema", "optrace.tensors/1"},
                 {"torch", answer.torch},
                 {"name", answer.name.empty() ? Json() : Json(answer.name)},
                 {"complete", !answer.log.full},
                 {"variables", Json::array()},
                 {"copies", list_of(all_copies(answer.log))},
                 {"storages", storages_json(answer.log)},
                 {"peaks", Json::array()}};
  for (const TensorHistory& history : answer.histories)
    object["variables"].push_back(history_json(history));
  for (const auto& [device, peak] : answer.log.peaks)
    object["peaks"].push_back({{"device", device},
                               {"bytes", peak.bytes},
                               {"reached", line_json(answer.log.outermost(peak.call))},
                               {"storages", peak.storages}});
  if (answer.process) {
    object["process"] = *answer.process;
    object["rank"] = answer.rank ? Json(*answer.rank) : Json();
  }
  return object;
}

}  // namespace

std::string to_json(const TensorsAnswer& answer) {
  return write_json(answer_json(answer), 1) + '\n';
}

std::string to_json_line(const TensorsAnswer& answer) {
  return write_json(answer_json(answer)) + '\n';
}

}  // namespace optrace
