#include "tracer/trace/trace_meta_json.h"

#include <utility>

#include "platform/text/json_fields.h"
#include "platform/text/json_members.h"
#include "platform/text/json_reader.h"
#include "platform/text/json_writer.h"
#include "pytorch/values/values_json.h"
#include "tracer/trace/recorded_run_json.h"
#include "tracer/trace/trace_sections.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

/// The members that are kept as JSON texts.
constexpr std::pair<const char*, std::string TraceMeta::*> kCompiled[] = {
    {"compilations", &TraceMeta::compilations},
    {"generated_code", &TraceMeta::generated_code},
    {"triton_kernels", &TraceMeta::triton_kernels}};
constexpr std::pair<const char*, std::string TraceMeta::*> kOthers[] = {
    {"attention", &TraceMeta::attention}, {"merged", &TraceMeta::merged}};

void read_texts(const Json& json, const auto& members, TraceMeta& meta) {
  for (const auto& [key, member] : members)
    if (json.contains(key)) meta.*member = write_json(json[key]);
}

void write_texts(const TraceMeta& meta, const auto& members, Json& json) {
  for (const auto& [key, member] : members)
    if (!(meta.*member).empty()) json[key] = read_json(meta.*member);
}

std::map<std::string, std::string> texts_by_name(const Json& json) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, text] : json.items())
    if (text.is_string()) texts.emplace(name, text.get<std::string>());
  return texts;
}

/// Reads what describes the request for an op.
void read_request(const Json& json, TraceMeta& meta) {
  meta.op = text_at(json, "op");
  meta.call = text_at(json, "call");
  for (const Json& input : list_at(json, "inputs"))
    meta.inputs.push_back({text_at(input, "name"), sizes_at(input, "shape"),
                           text_at(input, "dtype"), text_at(input, "device")});
  for (const Json& option : list_at(json, "options"))
    meta.options.push_back(option.is_string() ? option.get<std::string>() : "");
  meta.sample_from = text_at(json, "sample_from");
  meta.backward = flag_at(json, "backward");
  if (const Json& comparison = value_at(json, "comparison"); comparison.is_object())
    meta.comparison = {flag_at(comparison, "repeatable"), flag_at(comparison, "equal")};
}

/// Reads how the recording was made, and what it lacks.
void read_recording(const Json& json, TraceMeta& meta) {
  if (const Json& dry_run = value_at(json, "dry_run"); dry_run.is_object())
    meta.dry_run = {emulated_device_of(dry_run), texts_at(dry_run, "libraries")};
  meta.process = process_of(object_at(json, "process"));
  if (const Json& steps = value_at(json, "steps"); steps.is_object())
    meta.steps = recorded_steps_of(steps);
  const Json& selection = object_at(json, "selection");
  meta.selection = {text_at(selection, "ops"), text_at(selection, "from_module"),
                    count_at(selection, "skip"), count_at(selection, "count")};
  meta.start_unix_ns = count_at(json, "start_unix_ns");
  if (const Json& recording = value_at(json, "recording"); recording.is_object())
    meta.recording = {count_at(recording, "duration_ns"), count_at(recording, "events"),
                      count_at(recording, "command_cpu_ns")};
  const Json& probes = object_at(json, "probes");
  meta.probes = {text_at(probes, "mode"), number_at(probes, "placed"), number_at(probes, "failed")};
  if (json.contains("exit_status")) meta.exit_status = count_at(json, "exit_status");
  meta.untraced_children = json.contains("untraced_children");
  meta.other_traces = texts_at(json, "other_traces");
  meta.warnings = texts_at(json, "warnings");
  for (const auto& [kind, count] : object_at(json, "shortfalls").items())
    if (count.is_number_unsigned()) meta.shortfalls[kind] = count.get<std::uint64_t>();
}

Json request_json(const TraceMeta& meta) {
  Json json = {
      {"op", meta.op}, {"call", meta.call}, {"inputs", Json::array()}, {"backward", meta.backward}};
  for (const CallInput& input : meta.inputs)
    json["inputs"].push_back({{"name", input.name},
                              {"shape", to_json(input.shape)},
                              {"dtype", input.dtype},
                              {"device", input.device}});
  if (meta.comparison)
    json["comparison"] = {{"repeatable", meta.comparison->repeatable},
                          {"equal", meta.comparison->equal}};
  if (meta.op.empty()) return json;
  json["options"] = meta.options;
  json["sample_from"] = null_if_empty(meta.sample_from);
  return json;
}

void add_recording(const TraceMeta& meta, Json& json) {
  if (meta.dry_run) {
    json["dry_run"] = to_json(meta.dry_run->device);
    json["dry_run"]["libraries"] = meta.dry_run->libraries;
  }
  if (meta.process.id) json["process"]["id"] = *meta.process.id;
  if (meta.process.rank) json["process"]["rank"] = *meta.process.rank;
  if (meta.steps) {
    json["steps"] = {{"first", meta.steps->first}, {"count", meta.steps->count}};
    add_member(json["steps"], "ended_after", meta.steps->ended_after);
  }
  if (!meta.selection.everything())
    json["selection"] = {{"ops", meta.selection.ops},
                         {"from_module", meta.selection.from_module},
                         {"skip", meta.selection.skip},
                         {"count", meta.selection.count}};
  add_member(json, "start_unix_ns", meta.start_unix_ns);
  if (meta.recording) {
    json["recording"] = {{"duration_ns", meta.recording->duration_ns},
                         {"events", meta.recording->events}};
    add_member(json["recording"], "command_cpu_ns", meta.recording->command_cpu_ns);
  }
  if (!meta.probes.mode.empty()) json["probes"]["mode"] = meta.probes.mode;
  if (meta.probes.placed) json["probes"]["placed"] = *meta.probes.placed;
  if (meta.probes.failed) json["probes"]["failed"] = *meta.probes.failed;
  add_member(json, "exit_status", meta.exit_status);
  add_flag(json, "untraced_children", meta.untraced_children);
  if (!meta.other_traces.empty()) json["other_traces"] = meta.other_traces;
}

}  // namespace

TraceMeta trace_meta_of(const Json& json) {
  TraceMeta meta;
  if (!json.is_object()) return meta;
  meta.torch = torch_build_of(object_at(json, "torch"));
  meta.torch_folder = text_at(json, "torch_folder");
  meta.device = text_at(json, "device");
  meta.python = text_at(json, "python");
  meta.interpreter = text_at(object_at(json, "interpreter"), "path");
  meta.interpreter_from = text_at(object_at(json, "interpreter"), "from");
  meta.op_names = texts_by_name(object_at(json, "op_names"));
  read_tables(json, meta);
  read_texts(json, kOthers, meta);
  read_request(json, meta);
  read_recording(json, meta);
  return meta;
}

void read_tables(const Json& json, TraceMeta& meta) {
  if (const Json& calls = value_at(json, "python_calls_beyond_paths"); calls.is_object()) {
    meta.python_calls_beyond_paths.emplace();
    for (const auto& [name, beyond] : calls.items())
      if (beyond.is_number_integer())
        meta.python_calls_beyond_paths->emplace(name, beyond.get<std::int64_t>());
  }
  if (const Json& tables = value_at(json, "dispatch_tables"); tables.is_object())
    meta.dispatch_tables = texts_by_name(tables);
  if (const Json& boxed = value_at(json, "boxed_kernels"); boxed.is_object()) {
    meta.boxed_kernels.emplace();
    for (const auto& [op, places] : boxed.items())
      meta.boxed_kernels->emplace(op, texts_at(boxed, op.c_str()));
  }
  read_texts(json, kCompiled, meta);
  for (const char* const kind : {"triton_kernels", "finalized_later"})
    if (const std::uint64_t missing = count_at(object_at(json, "shortfalls"), kind); missing != 0)
      meta.shortfalls[kind] += missing;
}

Json to_json(const TraceMeta& meta) {
  Json json = request_json(meta);
  json["torch"] = to_json(meta.torch);
  json["torch_folder"] = meta.torch_folder;
  json["device"] = meta.device;
  json["python"] = meta.python;
  if (!meta.interpreter.empty())
    json["interpreter"] = {{"path", meta.interpreter}, {"from", meta.interpreter_from}};
  add_recording(meta, json);
  // A merged trace has no empty lists.
  const bool merged = !meta.merged.empty();
  if (!merged || !meta.warnings.empty()) json["warnings"] = meta.warnings;
  if (!merged || !meta.op_names.empty()) json["op_names"] = meta.op_names;
  add_member(json, "python_calls_beyond_paths", meta.python_calls_beyond_paths);
  if (!meta.shortfalls.empty() || (!merged && !meta.op.empty()))
    json["shortfalls"] = meta.shortfalls;
  add_member(json, "dispatch_tables", meta.dispatch_tables);
  add_member(json, "boxed_kernels", meta.boxed_kernels);
  write_texts(meta, kCompiled, json);
  write_texts(meta, kOthers, json);
  return json;
}

std::optional<TraceMeta> trace_format::read_trace_meta(std::string_view text,
                                                       std::string& problem) {
  const bool deep = is_nested_deeper(text, kMaxJsonDepth);
  const Json meta = read_json(text);
  if (meta.is_object()) return trace_meta_of(meta);
  problem = deep ? "nested too deeply" : "not a JSON object";
  return std::nullopt;
}

// A program's file names need not be UTF-8, but JSON text must be.
std::string trace_format::write_trace_meta(const TraceMeta& meta) {
  return write_json(to_json(meta));
}

}  // namespace optrace
