#include "report/call_detail.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "report/json_fields.h"

namespace optrace {
namespace {

// What is said by the frame itself, or by its layer.
constexpr std::string_view kCall = "call";
constexpr std::string_view kKind = "kind";
constexpr std::string_view kKernel = "kernel";

// What says most comes first; the rest follows by name.
constexpr auto kFirst = std::to_array<std::string_view>(
    {"operations", "m", "n", "k", "batch", "batch_count", "grid", "block", "bytes", "direction"});

// What the JSON has, and a line has no room for: identities, weights of a sum, what goes without
// saying.
bool goes_without_saying(std::string_view key, const nlohmann::json& value) {
  if (key == kCall || key == kKind || key == "calls" || key == "uid" || key == "strides" ||
      key == "alpha" || key == "beta")
    return true;
  return (key == "stream" || key == "shared_memory" || key == "host_read") &&
         (value == 0 || value.is_boolean());
}

/// `4×3×56×56`, `true`, `float`: a value as a line has room for it; empty where it has not.
std::string short_value(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (!value.is_array() || value.empty() ||
      !std::ranges::all_of(value, [](const nlohmann::json& one) { return one.is_number(); }))
    return {};
  std::string text;
  for (const nlohmann::json& one : value)
    text += fmt::format("{}{}", text.empty() ? "" : "×", one.dump());
  return text;
}

void append(std::string& line, std::string_view text) {
  line += fmt::format("{}{}", line.empty() ? "" : ", ", text);
}

/// `x 4×3×56×56 float` of a tensor, `convolution forward: x ..., w ...` of an operation, `m 64`.
void append_value(std::string& line, const std::string& key, const nlohmann::json& value) {
  if (value.is_object() && value.contains("dims")) {
    append(line, fmt::format("{} {} {}", key, short_value(value["dims"]), text_at(value, "type")));
  } else if (value.is_array() && !value.empty() && value.front().is_object()) {
    for (const nlohmann::json& part : value) {
      const std::string operation = text_at(part, "operation");
      if (operation.empty()) continue;
      std::string tensors;
      for (const auto& [name, tensor] : part.items())
        if (tensor.is_object() && tensor.contains("dims")) append_value(tensors, name, tensor);
      append(line, fmt::format("{}{}{}", operation, tensors.empty() ? "" : ": ", tensors));
    }
  } else if (const std::string text = short_value(value); !text.empty()) {
    append(line, fmt::format("{} {}", key, text));
  }
}

std::string one_line(const nlohmann::json& call) {
  std::string line;
  for (const std::string_view key : kFirst) {
    const auto found = call.find(key);
    if (found != call.end()) append_value(line, std::string(key), *found);
  }
  for (const auto& [key, value] : call.items())
    if (std::ranges::find(kFirst, key) == kFirst.end() && !goes_without_saying(key, value))
      append_value(line, key, value);
  return line;
}

}  // namespace

CallDetails::Calls CallDetails::of(std::string_view function,
                                   std::span<const OpTally> tallies) const {
  Calls result;
  for (const OpTally& tally : tallies) {
    if (tally.record == 0 || tally.record >= trace_.op_records.size()) continue;
    auto record = nlohmann::json::parse(trace_.op_records[tally.record], nullptr, false);
    if (!record.is_object() || !record.contains(kCall) || !record[kCall].is_string() ||
        !record.contains(kKind) || !record[kKind].is_string())
      continue;
    result.reads_device =
        result.reads_device || record.value("host_read", nlohmann::json()) == true;
    if (record[kCall] == function) record.erase(kCall);
    if (record[kKind] == kKernel && record.contains(kKernel) && record[kKernel].is_string()) {
      const auto symbol = record[kKernel].get<std::string>();
      auto launch = std::ranges::find(result.launches, symbol, &Launch::symbol);
      if (launch == result.launches.end()) {
        result.launches.push_back({.symbol = symbol, .calls = 0, .detail = {}});
        launch = std::prev(result.launches.end());
      }
      for (const std::string_view known : {kCall, kKind, kKernel}) record.erase(known);
      record["calls"] = tally.calls;
      launch->calls += tally.calls;
      launch->detail["launches"].push_back(record);
      continue;
    }
    record["calls"] = tally.calls;
    result.calls.push_back(record);
  }
  return result;
}

std::string call_note(const nlohmann::json& detail) {
  if (!detail.is_object()) return {};
  for (const char* const key : {"calls", "launches"}) {
    const auto found = detail.find(key);
    if (found == detail.end() || !found->is_array() || found->empty() ||
        !found->front().is_object())
      continue;
    std::string line = one_line(found->front());
    if (found->size() > 1)
      line += fmt::format("; and {} other kind{}", found->size() - 1, found->size() > 2 ? "s" : "");
    return line;
  }
  return {};
}

}  // namespace optrace
