#include "indexer/store/result_type.h"

#include <algorithm>
#include <charconv>
#include <climits>

#include <fmt/core.h>

namespace optrace {
namespace {

constexpr std::string_view kForms = "bsuenpo";
constexpr std::uint32_t kMaxSize = 8;
constexpr std::uint32_t kMaxOptionalSize = 4;

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_signed(ResultForm form) {
  return form == ResultForm::signed_integer || form == ResultForm::signed_enumeration;
}

/// Returns the low `size` bytes of a register as a number.
std::int64_t low_bytes(std::uint64_t value, std::uint32_t size, bool with_sign) {
  const unsigned shift = CHAR_BIT * (kMaxSize - size);
  if (with_sign) return static_cast<std::int64_t>(value << shift) >> shift;
  return static_cast<std::int64_t>(value << shift >> shift);
}

}  // namespace

std::string text_of(const ResultType& type) {
  std::string text;
  if (type.form == ResultForm::optional) text += static_cast<char>(type.form);
  text += fmt::format(
      "{}{} {}", static_cast<char>(type.form == ResultForm::optional ? type.value_form : type.form),
      type.size, type.name);
  for (const Enumerator& enumerator : type.enumerators)
    text += fmt::format("|{}={}", enumerator.name, enumerator.value);
  return text;
}

std::optional<ResultType> parse_result_type(std::string_view text) {
  const auto take_form = [&]() -> std::optional<ResultForm> {
    if (text.empty() || kForms.find(text.front()) == std::string_view::npos) return std::nullopt;
    const auto form = static_cast<ResultForm>(text.front());
    text.remove_prefix(1);
    return form;
  };
  const auto form = take_form();
  if (!form) return std::nullopt;
  ResultType type{.form = *form, .size = 0, .name = {}, .enumerators = {}, .value_form = *form};
  if (*form == ResultForm::optional) {
    const auto value_form = take_form();
    if (!value_form || *value_form == ResultForm::optional || *value_form == ResultForm::pointer)
      return std::nullopt;
    type.value_form = *value_form;
  }
  const auto size = parse_number<std::uint32_t>(text.substr(0, text.find(' ')));
  if (!size || *size == 0 || *size > (*form == ResultForm::optional ? kMaxOptionalSize : kMaxSize))
    return std::nullopt;
  type.size = *size;
  text.remove_prefix(std::min(text.size(), text.find(' ')));
  if (text.size() < 2) return std::nullopt;
  text.remove_prefix(1);
  type.name = text.substr(0, text.find('|'));
  text.remove_prefix(type.name.size());
  while (!text.empty()) {
    text.remove_prefix(1);
    const std::string_view entry = text.substr(0, text.find('|'));
    text.remove_prefix(entry.size());
    const auto split = entry.find('=');
    if (split == std::string_view::npos || split == 0) return std::nullopt;
    const auto value = parse_number<std::int64_t>(entry.substr(split + 1));
    if (!value) return std::nullopt;
    type.enumerators.push_back({std::string(entry.substr(0, split)), *value});
  }
  return type;
}

std::optional<ReturnedValue> read_result(const ResultType& type, std::uint64_t rax) {
  if (type.form == ResultForm::optional) {
    const std::uint64_t flag = rax >> (CHAR_BIT * type.size) & 0xFF;
    if (flag > 1) return std::nullopt;
    if (flag == 0) return ReturnedValue{.number = 0, .is_empty = true, .name = "nullopt"};
  }
  ReturnedValue value;
  value.number = low_bytes(rax, type.size, is_signed(type.value_form));
  switch (type.value_form) {
    case ResultForm::boolean:
      if (value.number != 0 && value.number != 1) return std::nullopt;
      value.name = value.number != 0 ? "true" : "false";
      break;
    case ResultForm::pointer:
      value.number = value.number != 0 ? 1 : 0;
      value.name = value.number != 0 ? "not null" : "null";
      break;
    default:
      break;
  }
  // The last name of a value is often an alias, such as `NumOptions`; the first one is its own.
  const auto named = std::ranges::find(type.enumerators, value.number, &Enumerator::value);
  if (named != type.enumerators.end()) value.name = named->name;
  return value;
}

}  // namespace optrace
