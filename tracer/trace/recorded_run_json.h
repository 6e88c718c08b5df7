#pragma once

#include <nlohmann/json.hpp>

#include "tracer/trace/recorded_run.h"

namespace optrace {

// These read what traces and reports say in the same words. The JSON is untrusted: what is invalid
// is skipped. `json` may be any JSON.

TorchBuild torch_build_of(const nlohmann::json& json);
EmulatedDevice emulated_device_of(const nlohmann::json& json);
RecordedSteps recorded_steps_of(const nlohmann::json& json);
ReportProcess process_of(const nlohmann::json& json);

nlohmann::json to_json(const TorchBuild& torch);
nlohmann::json to_json(const EmulatedDevice& device);

}  // namespace optrace
