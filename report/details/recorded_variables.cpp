#include "report/details/recorded_variables.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"

namespace optrace {

std::vector<RecordedVariable> recorded_variables(const Trace& trace,
                                                 std::span<const OpCallCount> counts) {
  std::map<std::string, std::map<std::string, std::uint64_t>> calls;  // By name and value.
  for (const OpCallCount& counted : counts) {
    if (counted.record >= trace.op_records.size()) continue;
    const nlohmann::json record = read_json(trace.op_records[counted.record]);
    if (text_at(record, "kind") != "variables") continue;
    for (const auto& [name, value] : object_at(record, "variables").items())
      if (value.is_string()) calls[name][value.get<std::string>()] += counted.calls;
  }
  std::vector<RecordedVariable> variables;
  for (const auto& [name, values] : calls) {
    RecordedVariable& variable = variables.emplace_back(RecordedVariable{name, {}});
    for (const auto& [value, count] : values) variable.values.push_back({value, count});
    std::ranges::stable_sort(variable.values, std::ranges::greater(), &CountedText::calls);
  }
  return variables;
}

std::string variables_note(const std::vector<RecordedVariable>& variables) {
  std::vector<std::string> notes;
  for (const RecordedVariable& variable : variables) {
    std::vector<std::string> texts;
    for (const CountedText& one : variable.values) {
      texts.push_back(fmt::format("'{}'", one.value));
      if (variable.values.size() > 1) texts.back() += fmt::format(" ×{}", one.calls);
    }
    notes.push_back(fmt::format("{}: {}", variable.name, joined(texts, ", ")));
  }
  return joined(notes, "; ");
}

}  // namespace optrace
