#include "tracer/trace/recorded_run_json.h"

#include "platform/text/json_fields.h"
#include "platform/text/json_members.h"

namespace optrace {

using Json = nlohmann::json;

TorchBuild torch_build_of(const Json& json) {
  return {text_at(json, "version"), text_at(json, "git_version"), text_at(json, "cuda"),
          truth_at(json, "debug")};
}

EmulatedDevice emulated_device_of(const Json& json) {
  return {text_at(json, "arch"), text_at(json, "gpu_model"), count_at(json, "devices")};
}

RecordedSteps recorded_steps_of(const Json& json) {
  return {count_at(json, "first"), count_at(json, "count"), number_at(json, "ended_after")};
}

ReportProcess process_of(const Json& json) {
  return {number_at(json, "id"), number_at(json, "rank")};
}

Json to_json(const TorchBuild& torch) {
  return {{"version", null_if_empty(torch.version)},
          {"git_version", null_if_empty(torch.git_version)},
          {"cuda", null_if_empty(torch.cuda)},
          {"debug", value_or_null(torch.debug)}};
}

Json to_json(const EmulatedDevice& device) {
  return {{"arch", device.arch}, {"gpu_model", device.gpu_model}, {"devices", device.devices}};
}

}  // namespace optrace
