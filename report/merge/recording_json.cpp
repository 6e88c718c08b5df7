#include "report/merge/recording_json.h"

#include <utility>

#include "platform/text/json_fields.h"
#include "pytorch/values/values_json.h"

namespace optrace {

using Json = nlohmann::json;

Recording recording_of(const Json& meta) {
  Recording recording;
  recording.op = text_at(meta, "op");
  recording.call = text_at(meta, "call");
  for (const Json& input : list_at(meta, "inputs"))
    recording.inputs.push_back(
        {text_at(input, "name"), sizes_at(input, "shape"), text_at(input, "dtype")});
  for (const Json& option : list_at(meta, "options"))
    recording.options.push_back(option.is_string() ? option.get<std::string>() : "");
  recording.backward = flag_at(meta, "backward");
  recording.python = text_at(meta, "python");
  const Json& interpreter = object_at(meta, "interpreter");
  recording.interpreter = text_at(interpreter, "path");
  recording.interpreter_from = text_at(interpreter, "from");
  recording.torch_folder = text_at(meta, "torch_folder");
  const Json& figures = object_at(meta, "recording");
  recording.duration = count_at(figures, "duration_ns");
  recording.events = count_at(figures, "events");
  recording.command_cpu = count_at(figures, "command_cpu_ns");
  recording.has_selection = !value_at(meta, "selection").is_null();
  recording.exit_status = count_at(meta, "exit_status");
  const Json& process = object_at(meta, "process");
  recording.process = {number_at(process, "id"), number_at(process, "rank")};
  recording.warnings = texts_at(meta, "warnings");
  return recording;
}

TorchBuild torch_build_of(const Json& meta) {
  const Json& traced = object_at(meta, "torch");
  TorchBuild torch{text_at(traced, "version"), text_at(traced, "git_version"),
                   text_at(traced, "cuda"), std::nullopt};
  if (const Json& debug = value_at(traced, "debug"); debug.is_boolean())
    torch.debug = debug.get<bool>();
  return torch;
}

std::optional<EmulatedDevice> emulated_device_of(const Json& meta) {
  const Json& device = object_at(meta, "dry_run");
  if (text_at(device, "arch").empty()) return std::nullopt;
  return EmulatedDevice{text_at(device, "arch"), text_at(device, "gpu_model"),
                        count_at(device, "devices")};
}

std::optional<RecordedSteps> recorded_steps_of(const Json& meta) {
  const Json& steps = object_at(meta, "steps");
  if (count_at(steps, "first") == 0) return std::nullopt;
  return RecordedSteps{count_at(steps, "first"), count_at(steps, "count"),
                       number_at(steps, "ended_after")};
}

}  // namespace optrace
