#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "platform/exported.h"
#include "report/check/rule_sentence.h"

namespace optrace {

struct RuleKind;

/// One rule: a sentence in the syntax of docs/check-format.md.
struct Rule {
  const RuleKind* kind = nullptr;  ///< A row of rule_kinds().
  std::string text;                ///< The sentence.
  std::string name;                ///< Name of the rule; the sentence if none is given.
  std::string because;             ///< Reason for the rule; may be empty.
  /// What the rule is about: a function, op or class, in which `*` matches any characters; the
  /// words of a measure; or a finding's rule, empty for all of them.
  std::string pattern;
  std::string device;    ///< Only calls of the op on `cpu` or `cuda`; empty: on any.
  std::string function;  ///< The function whose decisions in the op the rule is about.
  std::string value;     ///< A backend, a dtype, or what `function` returns.
  /// The number of occurrences, or the value, satisfies this relation.
  Relation relation = Relation::at_least;
  std::uint64_t bound = 1;
  std::string file;      ///< File with the rule; empty for a rule from the command line.
  std::size_t line = 0;  ///< Line in `file`, from 1.
};

/// Makes the rule hold if nothing is counted.
void forbid(Rule& rule);
/// Returns true if the rule holds only if nothing is counted.
bool forbids(const Rule& rule);

/// Maximum number of rules per check. Resolving a name takes some milliseconds.
constexpr std::size_t kMaxRules = 10'000;

/// Throws Error(usage) if the sentence is not a rule, with the expected syntax.
Rule parse_rule(std::string_view sentence);

/// Reads a file of rules, YAML or JSON. Its contents are untrusted.
/// Throws Error(usage) with the line if the file can't be read, is too large, has an unknown key or
/// an invalid rule, or has more than kMaxRules rules.
OPTRACE_EXPORTED std::vector<Rule> read_rules(const std::filesystem::path& path);

/// Parses the contents of such a file from memory. The rules have no file or line.
OPTRACE_EXPORTED std::vector<Rule> parse_rules(const std::string& text);

/// Parses the value of `--expect`: a sentence, or the path of a file of rules. It is a path if the
/// file exists or if it ends in .yaml, .yml or .json.
OPTRACE_EXPORTED std::vector<Rule> expected_rules(const std::string& expectation);

}  // namespace optrace
