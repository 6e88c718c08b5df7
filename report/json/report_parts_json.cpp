#include "report/json/report_parts_json.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "platform/text/json_members.h"
#include "report/json/write_detail_json.h"
#include "report/model/shortfalls.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

Json place_json(const CodePlace& place) {
  return {{"file", place.file}, {"line", place.line}};
}

Json kernel_json(const GeneratedKernel& kernel) {
  Json object = {
      {"name", kernel.name}, {"file", kernel.file}, {"origins", to_json(kernel.origins)}};
  if (kernel.source) object["source"] = place_json(*kernel.source);
  return object;
}

Json not_fused_json(const NotFused& pair) {
  Json object = {{"producer", pair.producer}, {"consumer", pair.consumer}};
  if (pair.is_extern) object["extern"] = true;
  add_member(object, "reason", pair.reason);
  return object;
}

void add_graph(Json& object, const CompiledGraph& graph) {
  add_member(object, "time", graph.time);
  add_member(object, "backend_time", graph.backend_time);
  add_member(object, "inductor_time", graph.inductor_time);
  add_member(object, "code_generation_time", graph.code_generation_time);
  add_member(object, "compiler_time", graph.compiler_time);
  if (graph.called_from) object["called_from"] = place_json(*graph.called_from);
  if (!graph.generated.empty()) object["generated"] = graph.generated;
  for (const GeneratedKernel& kernel : graph.kernels)
    object["kernels"].push_back(kernel_json(kernel));
  for (const NotFused& pair : graph.not_fused) object["not_fused"].push_back(not_fused_json(pair));
}

Json compilation_json(const Compilation& one) {
  Json object = {{"id", one.id},
                 {"function", one.function},
                 {"file", one.file},
                 {"line", one.line},
                 {"recompile_reasons", one.recompile_reasons},
                 {"breaks", Json::array()}};
  add_graph(object, one.forward);
  if (one.backward) {
    object["backward"] = Json::object();
    add_graph(object["backward"], *one.backward);
  }
  add_member(object, "graph_ops", one.graph_ops);
  add_member(object, "cache", one.cache);
  add_member(object, "failure", one.failure);
  if (one.recompile_limit) object["recompile_limit"] = true;
  for (const GraphBreak& broken : one.breaks)
    object["breaks"].push_back(
        {{"file", broken.file}, {"line", broken.line}, {"reason", broken.reason}});
  return object;
}

}  // namespace

Json to_json(const std::optional<EmulatedDevice>& device) {
  return device ? to_json(*device) : Json();
}

Json to_json(const std::optional<RecordedSteps>& steps) {
  if (!steps) return nullptr;
  return {{"first", steps->first},
          {"count", steps->count},
          {"ended_after", value_or_null(steps->ended_after)}};
}

Json to_json(const std::vector<ReportProcess>& processes) {
  Json list = Json::array();
  for (const ReportProcess& process : processes)
    list.push_back({{"id", value_or_null(process.id)}, {"rank", value_or_null(process.rank)}});
  return list;
}

Json to_json(const std::vector<Compilation>& compilations) {
  Json list = Json::array();
  for (const Compilation& one : compilations) list.push_back(compilation_json(one));
  return list;
}

Json to_json(const std::vector<Shortfall>& shortfalls) {
  Json list = Json::array();
  for (const Shortfall& shortfall : shortfalls)
    list.push_back(
        {{"kind", shortfall.kind}, {"count", shortfall.count}, {"what", sentence_of(shortfall)}});
  return list;
}

Json to_json(const std::optional<CallRange>& range) {
  if (!range) return nullptr;
  return {
      {"column", range->column}, {"end_line", range->end_line}, {"end_column", range->end_column}};
}

}  // namespace optrace
