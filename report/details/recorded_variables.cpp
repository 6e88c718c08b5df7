#include "report/details/recorded_variables.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "platform/text/joined.h"

namespace optrace {

std::vector<RecordedVariable> recorded_variables(const OpRecords& records,
                                                 std::span<const OpCallCount> counts) {
  std::map<std::string, std::map<std::string, std::uint64_t>> calls;  // By name and value.
  for (const OpCallCount& counted : counts) {
    if (const auto* const variables = records.find<VariableTexts>(counted.record))
      for (const auto& [name, value] : variables->texts) calls[name][value] += counted.calls;
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
