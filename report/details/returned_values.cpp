#include "report/details/returned_values.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

decltype(CountedResult::value) value_of(const ResultType& type, const ReturnedValue& read) {
  if (read.is_empty) return std::monostate();
  if (type.value_form == ResultForm::boolean) return read.number != 0;
  return read.number;
}

}  // namespace

std::optional<ReturnedValues> returned_values(const ResultType& type,
                                              std::span<const ReturnCount> counts,
                                              std::uint64_t left_out) {
  ReturnedValues returned{.type = type.name, .values = {}, .calls_left_out = left_out};
  for (const ReturnCount& counted : counts) {
    auto read = read_result(type, counted.value);
    if (!read) continue;
    const auto value = value_of(type, *read);
    const auto known = std::ranges::find(returned.values, value, &CountedResult::value);
    if (known != returned.values.end())
      known->calls += counted.calls;
    else
      returned.values.push_back({value, std::move(read->name), counted.calls});
  }
  if (returned.values.empty()) return std::nullopt;
  std::ranges::stable_sort(returned.values, std::ranges::greater(), &CountedResult::calls);
  return returned;
}

bool is_enumerator(const CountedResult& value, const std::string& type) {
  return std::holds_alternative<std::int64_t>(value.value) && type != kPointerType &&
         !value.name.empty();
}

std::string value_text(const CountedResult& value, const std::string& type) {
  if (!value.name.empty()) {
    const bool has_scope = is_enumerator(value, type) && type.find('<') == std::string::npos;
    return has_scope ? fmt::format("{}::{}", unqualified_name(type), value.name) : value.name;
  }
  if (const auto* const number = std::get_if<std::int64_t>(&value.value))
    return std::to_string(*number);
  const auto* const truth = std::get_if<bool>(&value.value);
  return truth == nullptr ? "null" : *truth ? "true" : "false";
}

DecidedValues decided_values(const Detail& detail, std::uint64_t calls) {
  DecidedValues decided;
  if (!detail.returned) return decided;
  std::uint64_t recorded = 0;
  for (const CountedResult& value : detail.returned->values) {
    if (value.name.empty()) return {};
    decided.values.insert(value_text(value, detail.returned->type));
    recorded += value.calls;
  }
  decided.of_all_calls = recorded >= calls && detail.returned->calls_left_out == 0;
  return decided;
}

std::string returned_text(const ReturnedValues& returned) {
  constexpr std::size_t kMost = 4;
  const std::vector<CountedResult>& values = returned.values;
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMost); ++i) {
    text += fmt::format("{}{}", text.empty() ? "→ " : ", ", value_text(values[i], returned.type));
    if (values.size() > 1) text += fmt::format(" ×{}", values[i].calls);
  }
  if (values.size() > kMost) text += fmt::format(" and {} more values", values.size() - kMost);
  return text;
}

std::string returned_text(const Detail& detail) {
  return detail.returned ? returned_text(*detail.returned) : std::string();
}

}  // namespace optrace
