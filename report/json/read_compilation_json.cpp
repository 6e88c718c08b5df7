#include "report/json/read_compilation_json.h"

#include <utility>

#include "platform/text/json_fields.h"
#include "report/json/read_detail_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

std::optional<CodePlace> place_at(const Json& object, const char* key) {
  const Json& place = value_at(object, key);
  if (!place.is_object()) return std::nullopt;
  return CodePlace{text_at(place, "file"), line_at(place, "line")};
}

GeneratedKernel kernel_of(const Json& json) {
  GeneratedKernel kernel{
      text_at(json, "name"), text_at(json, "file"), place_at(json, "source"), {}};
  for (const Json& origin : list_at(json, "origins")) kernel.origins.push_back(origin_of(origin));
  return kernel;
}

CompiledGraph graph_of(const Json& json) {
  CompiledGraph graph;
  graph.time = count_at(json, "time");
  graph.backend_time = count_at(json, "backend_time");
  graph.inductor_time = count_at(json, "inductor_time");
  graph.code_generation_time = count_at(json, "code_generation_time");
  graph.compiler_time = count_at(json, "compiler_time");
  graph.called_from = place_at(json, "called_from");
  graph.generated = texts_at(json, "generated");
  for (const Json& kernel : list_at(json, "kernels")) graph.kernels.push_back(kernel_of(kernel));
  for (const Json& pair : list_at(json, "not_fused"))
    graph.not_fused.push_back({text_at(pair, "producer"), text_at(pair, "consumer"),
                               flag_at(pair, "extern"), text_at(pair, "reason")});
  return graph;
}

}  // namespace

Compilation compilation_of(const Json& json) {
  Compilation one;
  one.id = text_at(json, "id");
  one.function = text_at(json, "function");
  one.file = text_at(json, "file");
  one.line = line_at(json, "line");
  one.forward = graph_of(json);
  if (const Json& backward = value_at(json, "backward"); backward.is_object())
    one.backward = graph_of(backward);
  one.graph_ops = count_at(json, "graph_ops");
  one.cache = text_at(json, "cache");
  one.failure = text_at(json, "failure");
  one.recompile_limit = flag_at(json, "recompile_limit");
  one.recompile_reasons = texts_at(json, "recompile_reasons");
  for (const Json& broken : list_at(json, "breaks"))
    if (broken.is_object())
      one.breaks.push_back(
          {text_at(broken, "file"), line_at(broken, "line"), text_at(broken, "reason")});
  return one;
}

}  // namespace optrace
