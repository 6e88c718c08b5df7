#include "tracer/connection/message_contents_json.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "tracer/connection/generated_code_json.h"
#include "tracer/connection/protocol.h"
#include "tracer/trace/trace_meta_json.h"

namespace optrace {
namespace {

namespace key = protocol::key;
using Json = nlohmann::json;

using Member = std::pair<const char*, Json::value_t>;
constexpr Member kOfTorch[] = {{"torch", Json::value_t::object},
                               {"op_names", Json::value_t::object},
                               {"python", Json::value_t::string},
                               {"torch_folder", Json::value_t::string}};
constexpr Member kOfCall[] = {
    {"inputs", Json::value_t::array},     {"warnings", Json::value_t::array},
    {"backward", Json::value_t::boolean}, {"device", Json::value_t::string},
    {"op", Json::value_t::string},        {"call", Json::value_t::string}};

void require_members(const Json& described, std::span<const Member> members) {
  if (std::ranges::all_of(members, [&](const Member& member) {
        return value_at(described, member.first).type() == member.second;
      }))
    return;
  throw Error(ExitStatus::failed, "the traced Python sent an unexpected description of itself",
              kReport);
}

Json& object_in(const TargetMessage& message, const char* key) {
  Json& json = message.content().json;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) {
    throw Error(ExitStatus::failed,
                fmt::format("a traced process sent an unexpected value of '{}'", key), kReport);
  }
  return *found;
}

Json texts(const std::vector<std::filesystem::path>& paths) {
  Json list = Json::array();
  for (const std::filesystem::path& path : paths) list.push_back(path.string());
  return list;
}

}  // namespace

const std::string& TargetMessage::kind() const {
  return content_->kind;
}

TargetMessage read_message(const std::string& line) {
  auto content = std::make_shared<TargetMessage::Content>();
  content->json = read_json(line);
  content->kind = text_at(content->json, key::kMessage);
  if (!value_at(content->json, key::kMessage).is_string()) {
    throw Error(
        ExitStatus::failed,
        fmt::format("the traced Python sent a malformed message: '{}'", displayable(line, 60)),
        kReport);
  }
  return TargetMessage(std::move(content));
}

Error problem_in(const TargetMessage& message) {
  const Json& json = message.content().json;
  const bool usage = value_at(json, key::kStatus) == static_cast<int>(ExitStatus::usage);
  return {usage ? ExitStatus::usage : ExitStatus::failed, displayable(text_at(json, key::kWhat)),
          displayable(text_at(json, key::kRemedy))};
}

std::vector<std::filesystem::path> paths_in(const Json& message, const char* key) {
  constexpr std::size_t kMaxPaths = 1000;
  const std::vector<std::string> texts = texts_at(message, key);
  if (texts.size() > kMaxPaths) return {};
  return {texts.begin(), texts.end()};
}

TraceMeta checked_torch(const Json& described) {
  require_members(described, kOfTorch);
  TraceMeta all = trace_meta_of(described);
  TraceMeta meta;
  meta.torch = std::move(all.torch);
  meta.op_names = std::move(all.op_names);
  meta.python = std::move(all.python);
  meta.torch_folder = std::move(all.torch_folder);
  return meta;
}

TraceMeta torch_in(const TargetMessage& message) {
  return checked_torch(object_in(message, key::kMeta));
}

TraceMeta call_in(const TargetMessage& message) {
  Json& described = object_in(message, key::kMeta);
  require_members(described, kOfTorch);
  require_members(described, kOfCall);
  cache_generated_code(described);
  return trace_meta_of(described);
}

void add_tables(TraceMeta& meta, const TargetMessage& message) {
  Json& tables = object_in(message, key::kMeta);
  cache_generated_code(tables);
  read_tables(tables, meta);
}

void add_warnings(TraceMeta& meta, const TargetMessage& message) {
  const Json& json = message.content().json;
  if (value_at(json, key::kPythonFrames) == false) ++meta.shortfalls["python_frames_off"];
  for (std::string& warning : texts_at(json, key::kWarnings))
    meta.warnings.push_back(std::move(warning));
}

std::string json_line(const Json& order) {
  return order.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string line_of(const RecordOrder& order) {
  Json json = {{key::kOrder, order.order},
               {key::kAgent, order.agent.string()},
               {key::kUseJumps, order.use_jumps},
               {key::kReturnsPerSite, order.returns_per_site},
               {key::kPlans, texts(order.plans)},
               {key::kTensors, order.tensor_bytes},
               {key::kOpAgent, order.op_agent.string()},
               {key::kActivityAgent, order.activity_agent.string()},
               {key::kCudaCallsAgent, order.cuda_calls_agent.string()}};
  if (order.call) json[key::kCall] = *order.call;
  if (order.timeout) json[key::kTimeout] = *order.timeout;
  if (order.files) json[key::kFiles] = texts(*order.files);
  return json_line(json);
}

std::string line_of(const char* order) {
  return json_line(Json{{key::kOrder, order}});
}

std::string line_of_tables(const std::vector<std::string>& ops) {
  return json_line(Json{{key::kOrder, protocol::order::kTables}, {key::kOps, ops}});
}

std::string line_of_describe(std::size_t call, const std::vector<std::string>& ops) {
  return json_line(
      Json{{key::kOrder, protocol::order::kDescribe}, {key::kCall, call}, {key::kOps, ops}});
}

}  // namespace optrace
