#include "report/compiled/compilations.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include <fmt/format.h>

#include "indexer/store/source_link.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// Keys of nanoseconds.
constexpr const char* kTimes[] = {"time", "backend_time", "inductor_time", "code_generation_time",
                                  "compiler_time"};

constexpr const char* kLimit = "recompile_limit";

// Returns true if PyTorch refused to compile the function again after this compilation.
bool is_last(const Json& one) {
  return one.is_object() && one.value(kLimit, Json()) == true;
}

void add_times(Json& to, const Json& from) {
  for (const char* const key : kTimes)
    if (const std::uint64_t time = count_at(from, key); time != 0) to[key] = time;
}

std::uint32_t line_at(const Json& object) {
  const std::uint64_t line = count_at(object, "line");
  return line <= std::numeric_limits<std::uint32_t>::max() ? static_cast<std::uint32_t>(line) : 0;
}

void add_place(Json& to, const Json& from, std::string_view torch_folder) {
  if (const Json& place = object_at(from, "called_from"); !place.empty())
    to["called_from"] = {{"file", relative_to_torch(text_at(place, "file"), torch_folder)},
                         {"line", line_at(place)}};
}

std::vector<std::string> generated_files(const Json& graph) {
  std::vector<std::string> files;
  for (const Json& file : list_at(graph, "generated"))
    if (file.is_string()) files.push_back(file.get<std::string>());
  return files;
}

// Adds what Inductor generated for a graph: the files, their kernels with what was fused into each,
// and what was not fused.
void add_generated(Json& to, const Json& graph, const GeneratedCode& generated) {
  const std::vector<std::string> files = generated_files(graph);
  if (!files.empty()) to["generated"] = files;
  for (const std::string& file : files) {
    for (const auto& [name, kernel] : generated.kernels_in(file)) {
      Json& described = to["kernels"].emplace_back(
          Json{{"name", name}, {"file", file}, {"origins", to_json(kernel.origins)}});
      if (!kernel.file.empty())
        described["source"] = {{"file", kernel.file}, {"line", kernel.line}};
    }
    for (const GeneratedCode::NotFused& pair : generated.not_fused_in(file)) {
      Json& described = to["not_fused"].emplace_back(
          Json{{"producer", pair.producer}, {"consumer", pair.consumer}});
      if (pair.is_extern) described["extern"] = true;
      if (!pair.reason.empty()) described["reason"] = pair.reason;
    }
  }
}

Json describe_compilation(const Json& one, std::string_view torch_folder,
                          const GeneratedCode& generated) {
  Json described = {{"id", text_at(one, "id")},
                    {"function", text_at(one, "function")},
                    {"file", relative_to_torch(text_at(one, "file"), torch_folder)},
                    {"line", line_at(one)},
                    {"recompile_reasons", Json::array()},
                    {"breaks", Json::array()}};
  add_times(described, one);
  if (const std::uint64_t ops = count_at(one, "graph_ops"); ops != 0) described["graph_ops"] = ops;
  for (const char* const key : {"cache", "failure"})
    if (std::string text = text_at(one, key); !text.empty()) described[key] = std::move(text);
  if (is_last(one)) described[kLimit] = true;
  add_place(described, one, torch_folder);
  add_generated(described, one, generated);
  if (const Json& backward = object_at(one, "backward"); !backward.empty()) {
    Json& graph = described["backward"] = Json::object();
    add_times(graph, backward);
    add_place(graph, backward, torch_folder);
    add_generated(graph, backward, generated);
  }
  for (const Json& reason : list_at(one, "recompile_reasons"))
    if (reason.is_string()) described["recompile_reasons"].push_back(reason);
  for (const Json& broken : list_at(one, "breaks"))
    if (broken.is_object())
      described["breaks"].push_back(
          {{"file", relative_to_torch(text_at(broken, "file"), torch_folder)},
           {"line", line_at(broken)},
           {"reason", text_at(broken, "reason")}});
  return described;
}

bool is_place(const Json& place, std::string_view file, std::uint32_t line) {
  return line != 0 && line_at(place) == line && text_at(place, "file") == file;
}

bool has_file(const Json& graph, std::string_view file) {
  const Json& files = list_at(graph, "generated");
  return std::any_of(files.begin(), files.end(), [&](const Json& one) { return one == file; });
}

}  // namespace

Json describe_compilations(const Json& meta, const GeneratedCode& generated) {
  Json described;
  const std::string torch_folder = text_at(meta, "torch_folder");
  for (const Json& one : list_at(meta, "compilations"))
    if (one.is_object()) described.push_back(describe_compilation(one, torch_folder, generated));
  return described;
}

std::vector<std::string> compilations_at(const Json& compilations, const CallPlace& place) {
  std::vector<std::string> ids;
  if (!compilations.is_array()) return ids;
  for (const Json& one : compilations)
    if (is_place(object_at(one, "called_from"), place.file, place.line))
      ids.push_back(text_at(one, "id"));
  return ids;
}

std::vector<std::string> backward_compilations_at(const Json& compilations,
                                                  const CallPlace& place) {
  std::vector<std::string> of_function, of_line;
  if (!compilations.is_array()) return {};
  for (const Json& one : compilations) {
    if (object_at(one, "backward").empty()) continue;
    if (is_place(one, place.file, place.function_line) &&
        text_at(one, "function") == place.function)
      of_function.push_back(text_at(one, "id"));
    if (is_place(object_at(one, "called_from"), place.file, place.line))
      of_line.push_back(text_at(one, "id"));
  }
  return of_function.empty() ? of_line : of_function;
}

CompilationIds compilations_of_file(const Json& compilations, std::string_view file) {
  CompilationIds ids;
  if (!compilations.is_array()) return ids;
  for (const Json& one : compilations) {
    if (has_file(one, file)) ids.forward.push_back(text_at(one, "id"));
    if (has_file(object_at(one, "backward"), file)) ids.backward.push_back(text_at(one, "id"));
  }
  return ids;
}

std::string graph_break_reason(const Json& compilations, std::string_view file,
                               std::uint32_t line) {
  if (!compilations.is_array()) return {};
  for (const Json& one : compilations)
    for (const Json& broken : list_at(one, "breaks"))
      if (line_at(broken) == line && text_at(broken, "file") == file)
        return text_at(broken, "reason");
  return {};
}

std::string reason_not_compiled(const Json& compilations, std::string_view file,
                                std::uint32_t line) {
  if (!compilations.is_array()) return {};
  std::size_t recompiled = 0;
  const Json* last = nullptr;
  for (const Json& one : compilations) {
    if (line_at(one) != line || text_at(one, "file") != file) continue;
    last = &one;
    if (!list_at(one, "recompile_reasons").empty()) ++recompiled;
  }
  if (last == nullptr) return {};
  if (const Json& breaks = list_at(*last, "breaks"); !breaks.empty())
    return fmt::format("line {}: {}", line_at(breaks.back()), text_at(breaks.back(), "reason"));
  if (is_last(*last))
    return fmt::format("PyTorch reached its limit of recompilations, after compiling it {} {}",
                       recompiled + 1, recompiled == 0 ? "time" : "times");
  constexpr std::size_t kSeveral = 2;
  return recompiled < kSeveral
             ? std::string()
             : fmt::format("it was compiled {} times before, as guards failed", recompiled + 1);
}

std::string failed_guard(const Json& compilations, std::string_view function) {
  if (!compilations.is_array()) return {};
  for (const Json& one : std::views::reverse(compilations)) {
    const Json& reasons = list_at(one, "recompile_reasons");
    if (reasons.empty() || !reasons[0].is_string() || text_at(one, "function") != function)
      continue;
    // It begins with the ID of the compiled code whose guard failed: "0/0: ".
    const std::string reason = reasons[0].get<std::string>();
    const std::size_t after_id = reason.find(": ");
    return after_id == std::string::npos ? reason : reason.substr(after_id + 2);
  }
  return {};
}

}  // namespace optrace
