#include "report/call_detail.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "report/json_fields.h"

namespace optrace {
namespace {

// What is said by the frame itself, or by its layer.
constexpr std::string_view kCall = "call";
constexpr std::string_view kKind = "kind";
constexpr std::string_view kKernel = "kernel";

/// `4x3x56x56`, `true`, `CUDNN_DATA_FLOAT`: a value as a line has room for it.
std::string short_value(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array() && !value.empty() &&
      std::ranges::all_of(value, [](const nlohmann::json& one) { return one.is_number(); })) {
    std::string text;
    for (const nlohmann::json& one : value)
      text += fmt::format("{}{}", text.empty() ? "" : "×", one.dump());
    return text;
  }
  return value.is_primitive() ? value.dump() : std::string();
}

/// `grid 4×1×1, block 128×1×1`; what has a structure of its own is shown by its own parts.
void append_values(std::string& line, const nlohmann::json& object) {
  for (const auto& [key, value] : object.items()) {
    if (key == "calls" || key == kKind || key == kCall) continue;
    if (value.is_array() || value.is_object()) {
      const std::string text = short_value(value);
      if (!text.empty()) {
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", key, text);
        continue;
      }
      for (const nlohmann::json& part : value.is_array() ? value : nlohmann::json::array({value}))
        if (part.is_object()) append_values(line, part);
      continue;
    }
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", key, short_value(value));
  }
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
    result.reads_device = result.reads_device || record.value("host_read", nlohmann::json()) == true;
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
    std::string line;
    append_values(line, found->front());
    if (found->size() > 1) line += fmt::format("; and {} other kinds", found->size() - 1);
    return line;
  }
  return {};
}

}  // namespace optrace
