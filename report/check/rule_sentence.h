#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/error.h"

namespace optrace {

/// A comparison of two numbers.
enum class Relation : std::uint8_t { at_most, at_least, less, more, equal, not_equal };

/// Returns true if `found` compares like this to `bound`.
bool holds(std::uint64_t found, Relation relation, std::uint64_t bound);

/// The end of a sentence that compares a number: `<= 12`.
struct Bound {
  Relation relation = Relation::at_least;
  std::uint64_t number = 0;
};

/// Shortens a part of a rule for an error message.
std::string rule_excerpt(std::string_view text);

/// Maximum length of a sentence in bytes.
constexpr std::size_t kMaxSentenceLength = 2000;

/// A sentence that is to be a rule, as words.
class RuleSentence {
 public:
  /// Throws Error(usage) if it is empty or too long.
  explicit RuleSentence(std::string_view text);

  /// Number of words.
  std::size_t size() const { return words_.size(); }
  /// Returns a word; empty after the end.
  std::string_view word(std::size_t at) const;
  /// Joins the words from one position to another, or to the end, with single spaces.
  std::string joined(std::size_t from, std::size_t to) const;
  std::string joined(std::size_t from) const { return joined(from, size()); }

  /// Returns the bound that the last two words are; nothing if they are none. Throws Error(usage)
  /// if a sign is followed by something else than a whole number.
  std::optional<Bound> bound() const;

  /// Returns an Error(usage) that the sentence is not a rule. `remedy` is examples if it is empty.
  Error refused(std::string_view why, std::string remedy = {}) const;

  /// Throws Error(usage) if a pattern has no name, only `*`.
  void require_name(std::string_view pattern) const;

 private:
  std::string_view text_;
  std::vector<std::string> words_;
};

}  // namespace optrace
