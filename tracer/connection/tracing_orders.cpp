#include "tracer/connection/tracing_orders.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "gpu/build/activity_agent.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/text/json_fields.h"
#include "tracer/connection/generated_code_cache.h"
#include "tracer/connection/protocol.h"
#include "tracer/connection/target_description.h"
#include "tracer/trace/trace_meta_json.h"

namespace optrace {
namespace {

namespace key = protocol::key;
using Json = nlohmann::json;

Json object_in(Json& message, const char* key) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_object()) {
    throw Error(ExitStatus::failed,
                fmt::format("a traced process sent an unexpected value of '{}'", key), kReport);
  }
  return std::move(*found);
}

}  // namespace

TracingOrders::TracingOrders(ProbeSession& session, ProbeMode probes, const DryRun* dry_run,
                             const std::filesystem::path& root, std::string builds_nothing)
    : session_(session),
      probes_(probes),
      dry_run_(dry_run),
      builds_nothing_(std::move(builds_nothing)) {
  if (!root.empty()) session_.modules().look_below(root);
}

void TracingOrders::plan(const TorchProcess& process, const FindAgents& find_agents) {
  const std::filesystem::path& folder = process.torch;
  if (folder.empty()) {
    throw Error(ExitStatus::failed, "a traced process did not send the location of its torch",
                kReport);
  }
  const ModuleStore& store = session_.modules();
  plan_nothing(process);
  std::vector<std::filesystem::path> modules = torch_libraries(folder, cuda_, store);
  if (dry_run_ != nullptr) {
    const auto& emulated = dry_run_->emulation.libraries;
    std::ranges::copy_if(emulated, std::back_inserter(modules),
                         [&store](const auto& library) { return store.has(library); });
  }
  modules.insert(modules.end(), process.modules.begin(), process.modules.end());
  plans_ = session_.initial_plans(modules);
  agents_.ops.missing = builds_nothing_;
  if (!builds_nothing_.empty()) return;
  // Resolved once, because a link may be changed before it is followed again.
  std::error_code error;
  const auto resolved = std::filesystem::canonical(folder, error);
  agents_ =
      find_agents(error ? folder : resolved, cuda_ && records_device_activity(dry_run_ != nullptr));
}

void TracingOrders::plan_nothing(const TorchProcess& process) {
  cuda_ = dry_run_ != nullptr || process.cuda;
}

void TracingOrders::plan_library(const std::filesystem::path& library) {
  if (auto plan = session_.plan_for_library(library); !plan.empty())
    plans_.push_back(std::move(plan));
}

TraceMeta TracingOrders::meta(Json imported, const std::string& call) const {
  TraceMeta meta = checked_torch(object_in(imported, key::kMeta));
  meta.device = cuda_ ? "cuda" : "cpu";
  meta.call = call;
  describe(meta);
  return meta;
}

void TracingOrders::describe(TraceMeta& meta) const {
  agents_.add_warnings(meta.warnings);
  meta.probes.mode = name_of(probes_);
}

Json TracingOrders::record(const RecordingRequest& request) const {
  Json plans = Json::array();
  for (const std::filesystem::path& plan : plans_) plans.push_back(plan.string());
  Json order = {{key::kOrder, protocol::order::kRecord},
                {key::kAgent, (library_folder() / "liboptrace_agent.so").string()},
                {key::kUseJumps, probes_ == ProbeMode::jump},
                {key::kReturnsPerSite, request.returns_per_site},
                {key::kPlans, std::move(plans)}};
  order[key::kTensors] = request.tensors ? log_bytes(request.target_bytes) : std::uint64_t{0};
  agents_.add_to(order);
  return order;
}

std::vector<std::filesystem::path> TracingOrders::files() const {
  std::vector<std::filesystem::path> files = plans_;
  files.push_back(library_folder() / "liboptrace_agent.so");
  return files;
}

void receive_recording(ProgramConnection& connection, TraceMeta& meta) {
  add_warnings(meta, connection.receive(protocol::message::kRecording, kAnswerLimit));
}

void receive_tables(ProgramConnection& connection, const std::vector<std::string>& ops,
                    TraceMeta& meta) {
  connection.send({{key::kOrder, protocol::order::kTables}, {key::kOps, ops}});
  Json message = connection.receive(protocol::message::kTables, kAnswerLimit);
  Json tables = object_in(message, key::kMeta);
  cache_generated_code(tables);
  read_tables(tables, meta);
}

void add_warnings(TraceMeta& meta, const Json& message) {
  if (value_at(message, key::kPythonFrames) == false) ++meta.shortfalls["python_frames_off"];
  for (std::string& warning : texts_at(message, key::kWarnings))
    meta.warnings.push_back(std::move(warning));
}

}  // namespace optrace
