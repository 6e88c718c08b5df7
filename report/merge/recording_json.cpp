#include "report/merge/recording_json.h"

#include "platform/text/json_fields.h"
#include "pytorch/values/values_json.h"
#include "report/json/read_recording_json.h"

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
  recording.process = process_of(object_at(meta, "process"));
  recording.warnings = texts_at(meta, "warnings");
  return recording;
}

TorchBuild torch_build_in(const Json& meta) {
  return torch_build_of(object_at(meta, "torch"));
}

std::optional<EmulatedDevice> emulated_device_in(const Json& meta) {
  EmulatedDevice device = emulated_device_of(object_at(meta, "dry_run"));
  if (device.arch.empty()) return std::nullopt;
  return device;
}

std::optional<RecordedSteps> recorded_steps_in(const Json& meta) {
  const RecordedSteps steps = recorded_steps_of(object_at(meta, "steps"));
  if (steps.first == 0) return std::nullopt;
  return steps;
}

}  // namespace optrace
