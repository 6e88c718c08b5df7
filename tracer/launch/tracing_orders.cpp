#include "tracer/launch/tracing_orders.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "platform/error.h"
#include "platform/installation.h"
#include "tracer/launch/target_description.h"
#include "tracer/runtime_build/built_for_torch.h"
#include "tracer/trace/trace.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr const char* kReport =
    "Run the command again. If it fails again, report it with this output.";
constexpr std::size_t kMaxModules = 16;
constexpr std::chrono::milliseconds kAnswerLimit = std::chrono::seconds(30);

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

void TracingOrders::plan(const Json& greeting) {
  const auto torch = greeting.find("torch");
  if (torch == greeting.end() || !torch->is_string()) {
    throw Error(ExitStatus::failed, "a traced process did not send the location of its torch",
                kReport);
  }
  const std::filesystem::path folder = torch->get<std::string>();
  const ModuleStore& store = session_.modules();
  cuda_ = dry_run_ != nullptr || greeting.value("cuda", Json()) == true;
  std::vector<std::filesystem::path> modules = torch_libraries(folder, cuda_, store);
  if (dry_run_ != nullptr) {
    const auto& emulated = dry_run_->emulation.libraries;
    std::ranges::copy_if(emulated, std::back_inserter(modules),
                         [&store](const auto& library) { return store.has(library); });
  }
  const auto others = greeting.find("modules");
  if (others != greeting.end() && others->is_array() && others->size() <= kMaxModules) {
    for (const Json& other : *others) {
      if (other.is_string()) modules.emplace_back(other.get<std::string>());
    }
  }
  plans_ = session_.initial_plans(modules);
  op_agent_.missing = builds_nothing_;
  if (builds_nothing_.empty()) build_agents(folder);
}

void TracingOrders::build_agents(const std::filesystem::path& torch_folder) {
  const auto silent = [](std::string_view) {};
  // Resolved once, because a link may be changed before it is followed again.
  std::error_code error;
  const auto resolved = std::filesystem::canonical(torch_folder, error);
  const auto& folder = error ? torch_folder : resolved;
  op_agent_ = find_or_build_op_agent(folder, silent);
  if (cuda_ && records_device_activity(dry_run_ != nullptr)) {
    activity_agent_ = find_or_build_activity_agent(folder, silent);
    cuda_calls_agent_ = find_or_build_cuda_calls_agent(folder, silent);
  }
}

Json TracingOrders::meta(Json imported, const std::string& call) const {
  Json meta = object_in(imported, "meta");
  meta["device"] = cuda_ ? "cuda" : "cpu";
  meta["op"] = "";
  meta["call"] = call;
  meta["inputs"] = Json::array();
  meta["backward"] = false;
  meta["warnings"] = Json::array();
  for (const std::string& missing :
       {op_agent_.missing, activity_agent_.missing, cuda_calls_agent_.missing})
    if (!missing.empty()) meta["warnings"].push_back(missing);
  if (const std::string warning = not_kept_warning(op_agent_.folder, op_agent_.not_kept);
      !warning.empty())
    meta["warnings"].push_back(warning);
  meta["probes"] = {{"mode", probes_ == ProbeMode::jump ? "jump" : "int3"}};
  return checked_meta(std::move(meta));
}

Json TracingOrders::record() const {
  Json plans = Json::array();
  for (const std::filesystem::path& plan : plans_) plans.push_back(plan.string());
  return {{"order", "record"},
          {"agent", (library_folder() / "liboptrace_agent.so").string()},
          {"op_agent", op_agent_.library.string()},
          {"activity_agent", activity_agent_.library.string()},
          {"cuda_calls_agent", cuda_calls_agent_.library.string()},
          {"use_jumps", probes_ == ProbeMode::jump},
          {"plans", std::move(plans)}};
}

std::vector<std::filesystem::path> TracingOrders::files() const {
  std::vector<std::filesystem::path> files = plans_;
  files.push_back(library_folder() / "liboptrace_agent.so");
  return files;
}

void receive_recording(ProgramConnection& connection, Json& meta) {
  add_warnings(meta, connection.receive("recording", kAnswerLimit));
}

void add_tables(Json& meta, Json message) {
  const Json tables = object_in(message, "meta");
  for (const char* const key : {"dispatch_tables", "boxed_kernels"}) {
    if (tables.contains(key)) meta[key] = tables[key];
  }
}

void add_warnings(Json& meta, const Json& message) {
  if (message.value("python_frames", Json()) == false) note_shortfall(meta, "python_frames_off");
  const auto found = message.find("warnings");
  if (found == message.end() || !found->is_array()) return;
  for (const Json& warning : *found) {
    if (warning.is_string()) meta["warnings"].push_back(warning);
  }
}

}  // namespace optrace
