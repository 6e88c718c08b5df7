#include "tracer/connection/tracing_orders.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "gpu/build/activity_agent.h"
#include "platform/error.h"
#include "platform/files/installation.h"
#include "tracer/connection/protocol.h"
#include "tracer/connection/target_description.h"

namespace optrace {

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

TraceMeta TracingOrders::meta(const TargetMessage& imported, const std::string& call) const {
  TraceMeta meta = torch_in(imported);
  meta.device = cuda_ ? "cuda" : "cpu";
  meta.call = call;
  describe(meta);
  return meta;
}

void TracingOrders::describe(TraceMeta& meta) const {
  agents_.add_warnings(meta.warnings);
  meta.probes.mode = name_of(probes_);
}

RecordOrder TracingOrders::record(const RecordingRequest& request) const {
  return {.order = protocol::order::kRecord,
          .agent = library_folder() / "liboptrace_agent.so",
          .use_jumps = probes_ == ProbeMode::jump,
          .returns_per_site = request.returns_per_site,
          .plans = plans_,
          .tensor_bytes = request.tensors ? log_bytes(request.target_bytes) : 0,
          .op_agent = agents_.ops.library(),
          .activity_agent = agents_.device_activity.library(),
          .cuda_calls_agent = agents_.cuda_calls.library(),
          .call = {},
          .timeout = {},
          .files = {}};
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
  connection.send(line_of_tables(ops));
  add_tables(meta, connection.receive(protocol::message::kTables, kAnswerLimit));
}

}  // namespace optrace
