#pragma once

#include <nlohmann/json.hpp>

#include "report/model/report.h"

namespace optrace {

// These read a trace's metadata (docs/trace-format.md), which is untrusted: what is invalid is
// skipped. `meta` may be any JSON.

Recording recording_of(const nlohmann::json& meta);
TorchBuild torch_build_in(const nlohmann::json& meta);
/// Returns nothing if nothing was emulated.
std::optional<EmulatedDevice> emulated_device_in(const nlohmann::json& meta);
/// Returns nothing if all steps were to be recorded.
std::optional<RecordedSteps> recorded_steps_in(const nlohmann::json& meta);

}  // namespace optrace
