#include <algorithm>
#include <utility>

#include "platform/files/installation.h"
#include "platform/text/json_fields.h"
#include "tracer/connection/message_contents_json.h"
#include "tracer/connection/protocol.h"
#include "tracer/launch/op_messages.h"

namespace optrace {
namespace {

namespace key = protocol::key;
using Json = nlohmann::json;

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace

PythonMessage python_in(const TargetMessage& message) {
  const Json& json = message.content().json;
  PythonMessage python{.version = {}, .torch = {}, .modules = paths_in(json, key::kModules)};
  const Json& version = list_at(json, key::kVersion);
  const std::string implementation = text_at(json, key::kImplementation);
  if (version.size() == 3 && !implementation.empty() &&
      std::ranges::all_of(version, [](const Json& part) { return part.is_number_unsigned(); })) {
    python.version = {version[0].get<std::uint64_t>(), version[1].get<std::uint64_t>(),
                      displayable(implementation, 40)};
  }
  if (value_at(json, key::kTorch).is_string()) python.torch = text_at(json, key::kTorch);
  return python;
}

ReadyMessage ready_in(const TargetMessage& message) {
  const Json& json = message.content().json;
  return {.call = number_at(json, key::kCall), .modules = paths_in(json, key::kModules)};
}

std::string line_of(const LaunchRequest& request) {
  return json_line(Json{{key::kDevice, request.device},
                        {key::kUseJumps, request.probes == ProbeMode::jump},
                        {key::kAgent, (library_folder() / "liboptrace_agent.so").string()},
                        {key::kSamples, (data_folder() / "samples").string()}});
}

std::string line_of(const OpCall& call) {
  Json shapes = Json::array();
  for (const TensorShape& shape : call.shapes)
    shapes.push_back(Json::array({text_or_null(shape.tensor), shape.sizes}));
  Json dtypes = Json::array();
  for (const TensorType& type : call.dtypes)
    dtypes.push_back(Json::array({text_or_null(type.tensor), type.dtype}));
  return json_line(Json{{key::kOrder, protocol::order::kPrepare},
                        {key::kOp, call.op},
                        {key::kBackward, call.backward},
                        {key::kRequiresGrad, call.requires_grad},
                        {key::kShapes, std::move(shapes)},
                        {key::kDtypes, std::move(dtypes)},
                        {key::kInput, call.input ? Json(*call.input) : Json()},
                        {key::kCompare, call.compare},
                        {key::kCompile, call.compile}});
}

}  // namespace optrace
