#include "report/details/returned_values.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "pytorch/symbols/symbol_name.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

using nlohmann::json;

constexpr const char* kReturned = "returned";

json value_of(const ResultType& type, const ReturnedValue& read) {
  if (read.is_empty) return nullptr;
  if (type.value_form == ResultForm::boolean) return read.number != 0;
  return read.number;
}

}  // namespace

json returned_values(const ResultType& type, std::span<const ReturnTally> tallies,
                     std::uint64_t left_out) {
  struct Counted {
    ReturnedValue value;
    std::uint64_t calls = 0;
  };
  std::vector<Counted> values;
  for (const ReturnTally& tally : tallies) {
    auto value = read_result(type, tally.value);
    if (!value) continue;
    const auto known = std::ranges::find_if(values, [&](const Counted& other) {
      return other.value.number == value->number && other.value.is_empty == value->is_empty;
    });
    if (known != values.end())
      known->calls += tally.calls;
    else
      values.push_back({*std::move(value), tally.calls});
  }
  if (values.empty()) return nullptr;
  std::ranges::stable_sort(values, std::ranges::greater(), &Counted::calls);
  json returned{{"type", type.name}, {"values", json::array()}};
  for (const Counted& counted : values) {
    json entry{{"value", value_of(type, counted.value)}, {"calls", counted.calls}};
    if (!counted.value.name.empty()) entry["name"] = counted.value.name;
    returned["values"].push_back(std::move(entry));
  }
  if (values.size() == 1) {
    returned["value"] = returned["values"][0]["value"];
    if (!values[0].value.name.empty()) returned["name"] = values[0].value.name;
  }
  if (left_out != 0) returned["calls_left_out"] = left_out;
  return returned;
}

bool is_enumerator(const json& value, const std::string& type) {
  const auto number = value.find("value");
  return number != value.end() && number->is_number() && type != kPointerType &&
         !text_at(value, "name").empty();
}

std::string value_text(const json& value, const std::string& type) {
  const std::string name = text_at(value, "name");
  const auto number = value.find("value");
  if (name.empty()) return number == value.end() ? "?" : number->dump();
  const bool has_scope = is_enumerator(value, type) && type.find('<') == std::string::npos;
  return has_scope ? fmt::format("{}::{}", unqualified_name(type), name) : name;
}

DecidedValues decided_values(const json& detail, std::uint64_t calls) {
  const json& returned = object_at(detail, kReturned);
  DecidedValues decided;
  std::uint64_t recorded = 0;
  for (const json& value : list_at(returned, "values")) {
    if (text_at(value, "name").empty()) return {};
    decided.values.insert(value_text(value, text_at(returned, "type")));
    recorded += count_at(value, "calls");
  }
  decided.of_all_calls = recorded >= calls && count_at(returned, "calls_left_out") == 0;
  return decided;
}

std::string returned_text(const json& detail) {
  const json& returned = object_at(detail, kReturned);
  const json& values = list_at(returned, "values");
  const std::string type = text_at(returned, "type");
  constexpr std::size_t kMost = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMost); ++i) {
    if (!values[i].is_object()) continue;
    text += fmt::format("{}{}", text.empty() ? "→ " : ", ", value_text(values[i], type));
    if (values.size() > 1) text += fmt::format(" ×{}", count_at(values[i], "calls"));
  }
  if (values.size() > kMost) text += fmt::format(" and {} more values", values.size() - kMost);
  return text;
}

}  // namespace optrace
