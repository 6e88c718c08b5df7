#include "report/check/rule_sentence.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

constexpr const char* kExamples =
    "Examples of rules: 'calls aten::mm', 'never calls *slow_conv*', 'launches <= 12', "
    "'conv2d@cuda uses cudnn', 'conv2d decision use_mkldnn == true', 'no graph break'; "
    "docs/check-format.md lists all forms.";

struct Sign {
  std::string_view text;
  Relation relation;
};
constexpr auto kSigns = std::to_array<Sign>({{"<=", Relation::at_most},
                                             {">=", Relation::at_least},
                                             {"<", Relation::less},
                                             {">", Relation::more},
                                             {"==", Relation::equal},
                                             {"!=", Relation::not_equal}});

std::vector<std::string> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string> words;
  while (true) {
    const std::size_t start = text.find_first_not_of(kSpace);
    if (start == std::string_view::npos) return words;
    const std::size_t end = std::min(text.find_first_of(kSpace, start), text.size());
    words.emplace_back(text.substr(start, end - start));
    text.remove_prefix(end);
  }
}

}  // namespace

bool holds(std::uint64_t found, Relation relation, std::uint64_t bound) {
  switch (relation) {
    case Relation::at_most:
      return found <= bound;
    case Relation::at_least:
      return found >= bound;
    case Relation::less:
      return found < bound;
    case Relation::more:
      return found > bound;
    case Relation::equal:
      return found == bound;
    case Relation::not_equal:
      return found != bound;
  }
  return false;
}

std::string rule_excerpt(std::string_view text) {
  constexpr std::size_t kShown = 100;
  return printable_start(text, kShown);
}

RuleSentence::RuleSentence(std::string_view text) : text_(text), words_(words_of(text)) {
  if (words_.empty()) throw refused("it is empty");
  if (text.size() > kMaxSentenceLength) throw refused("it is too long");
}

std::string_view RuleSentence::word(std::size_t at) const {
  return at < words_.size() ? std::string_view(words_[at]) : std::string_view();
}

std::string RuleSentence::joined(std::size_t from, std::size_t to) const {
  const auto begin = words_.begin();
  return optrace::joined(
      std::span(begin + static_cast<std::ptrdiff_t>(from), begin + static_cast<std::ptrdiff_t>(to)),
      " ");
}

std::optional<Bound> RuleSentence::bound() const {
  if (words_.size() < 2) return std::nullopt;
  const auto sign = std::ranges::find(kSigns, words_[words_.size() - 2], &Sign::text);
  if (sign == kSigns.end()) return std::nullopt;
  const std::string& number = words_.back();
  if (number.find_first_of("<>") != std::string::npos)  // `vector<long> >::apply`
    return std::nullopt;
  Bound bound{.relation = sign->relation};
  const char* const end = number.data() + number.size();
  const auto [rest, problem] = std::from_chars(number.data(), end, bound.number);
  if (problem != std::errc() || rest != end)
    throw refused(fmt::format("'{}' is not a whole number", rule_excerpt(number)));
  return bound;
}

Error RuleSentence::refused(std::string_view why, std::string remedy) const {
  return {ExitStatus::usage, fmt::format("'{}' is not a rule: {}", rule_excerpt(text_), why),
          remedy.empty() ? kExamples : std::move(remedy)};
}

void RuleSentence::require_name(std::string_view pattern) const {
  if (pattern.find_first_not_of('*') == std::string_view::npos)
    throw refused("the pattern has no name");
}

}  // namespace optrace
