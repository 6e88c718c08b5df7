#include "report/json/read_recording_json.h"

#include "platform/text/json_fields.h"

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

}  // namespace optrace
