#include "report/model/compilations.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include <fmt/format.h>

#include "report/model/json_fields.h"
#include "report/model/source_link.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// Keys of nanoseconds.
constexpr const char* kTimes[] = {"time", "backend_time", "inductor_time", "code_generation_time"};

void add_times(Json& to, const Json& from) {
  for (const char* const key : kTimes)
    if (const std::uint64_t time = count_at(from, key); time != 0) to[key] = time;
}

std::uint32_t line_at(const Json& object) {
  const std::uint64_t line = count_at(object, "line");
  return line <= std::numeric_limits<std::uint32_t>::max() ? static_cast<std::uint32_t>(line) : 0;
}

// Returns the kernels of the files that Inductor generated for a compilation, with what was fused
// into each.
Json describe_kernels(const Json& one, const GeneratedCode& generated) {
  Json kernels = Json::array();
  const Json& backward = list_at(one, "generated_backward");
  for (const Json& file : list_at(one, "generated")) {
    if (!file.is_string()) continue;
    const auto path = file.get<std::string>();
    for (const auto& [name, origins] : generated.kernels_in(path)) {
      Json& kernel =
          kernels.emplace_back(Json{{"name", name}, {"file", file}, {"origins", to_json(origins)}});
      if (std::ranges::find(backward, file) != backward.end()) kernel["backward"] = true;
      if (const auto* const defined = generated.kernel_in(path, name); defined != nullptr)
        kernel["source"] = {{"file", defined->file}, {"line", defined->line}};
    }
  }
  return kernels;
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
  if (const Json& backward = object_at(one, "backward"); !backward.empty()) {
    described["backward"] = Json::object();
    add_times(described["backward"], backward);
  }
  if (const Json& place = object_at(one, "called_from"); !place.empty())
    described["called_from"] = {{"file", relative_to_torch(text_at(place, "file"), torch_folder)},
                                {"line", line_at(place)}};
  if (Json kernels = describe_kernels(one, generated); !kernels.empty())
    described["kernels"] = std::move(kernels);
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

}  // namespace

Json describe_compilations(const Json& meta, const GeneratedCode& generated) {
  Json described;
  const std::string torch_folder = text_at(meta, "torch_folder");
  for (const Json& one : list_at(meta, "compilations"))
    if (one.is_object()) described.push_back(describe_compilation(one, torch_folder, generated));
  return described;
}

std::vector<std::string> compilations_at(const Json& compilations, std::string_view file,
                                         std::uint32_t line) {
  std::vector<std::string> ids;
  if (!compilations.is_array()) return ids;
  for (const Json& one : compilations) {
    const Json& place = object_at(one, "called_from");
    if (line != 0 && line_at(place) == line && text_at(place, "file") == file)
      ids.push_back(text_at(one, "id"));
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
