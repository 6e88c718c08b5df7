#include "report/details/recorded_variables.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "platform/text/json_reader.h"
#include "report/model/json_fields.h"

namespace optrace {

nlohmann::json recorded_variables(const Trace& trace, std::span<const OpTally> tallies) {
  std::map<std::string, std::map<std::string, std::uint64_t>> calls;  // By name and value.
  for (const OpTally& tally : tallies) {
    if (tally.record >= trace.op_records.size()) continue;
    const nlohmann::json record = read_json(trace.op_records[tally.record]);
    if (text_at(record, "kind") != "variables") continue;
    for (const auto& [name, value] : object_at(record, "variables").items())
      if (value.is_string()) calls[name][value.get<std::string>()] += tally.calls;
  }
  nlohmann::json variables;
  for (const auto& [name, values] : calls) {
    std::vector<std::pair<std::string, std::uint64_t>> sorted(values.begin(), values.end());
    std::ranges::stable_sort(sorted, std::ranges::greater(),
                             &std::pair<std::string, std::uint64_t>::second);
    nlohmann::json list = nlohmann::json::array();
    for (const auto& [value, count] : sorted) list.push_back({{"value", value}, {"calls", count}});
    variables.push_back({{"name", name}, {"values", std::move(list)}});
  }
  return variables;
}

std::string variables_note(const nlohmann::json& detail) {
  std::vector<std::string> variables;
  for (const nlohmann::json& variable : list_at(detail, "variables")) {
    const nlohmann::json& values = list_at(variable, "values");
    std::vector<std::string> texts;
    for (const nlohmann::json& one : values) {
      texts.push_back(fmt::format("'{}'", text_at(one, "value")));
      if (values.size() > 1) texts.back() += fmt::format(" ×{}", count_at(one, "calls"));
    }
    variables.push_back(fmt::format("{}: {}", text_at(variable, "name"), fmt::join(texts, ", ")));
  }
  return fmt::format("{}", fmt::join(variables, "; "));
}

}  // namespace optrace
