#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "platform/exported.h"

namespace optrace {

/// A comparison of two numbers.
enum class Relation : std::uint8_t { at_most, at_least, less, more, equal, not_equal };
bool holds(std::uint64_t found, Relation relation, std::uint64_t bound);
/// Returns the relation's sign, such as `<=`.
std::string_view sign_of(Relation relation);

/// A quantity that can be counted in a report. docs/check-format.md defines them.
enum class Measure : std::uint8_t {
  ops,
  kernels,
  launches,
  library_calls,
  copies,
  synchronisations,
  graph_breaks,
  recompiles,
  cpu_fallbacks,
  implicit_copies,
  failures,
};

/// One rule: a sentence in the syntax of docs/check-format.md.
struct Rule {
  enum class Kind : std::uint8_t {
    calls,        ///< The number of calls of `pattern` satisfies `relation`.
    uses,         ///< Each call of op `pattern` ends in `backend`.
    never_uses,   ///< No call of op `pattern` ends in `backend`.
    measure,      ///< The count of `measure` satisfies `relation`.
    no_dtype,     ///< No op works on tensors of `dtype`.
    has_sources,  ///< Every frame of PyTorch has a source.
    /// Each call of `function` in calls of op `pattern` returned `value` (`relation` equal), or did
    /// not (not_equal).
    decision,
    no_finding,  ///< The rule `pattern` of `optrace findings` finds nothing; empty: no rule does.
  };
  Kind kind = Kind::measure;
  std::string text;     ///< The sentence.
  std::string name;     ///< Name of the rule; the sentence if none is given.
  std::string because;  ///< Reason for the rule; may be empty.
  std::string pattern;  ///< Function, op or class; `*` matches any characters. Or a finding's rule.
  std::string device;   ///< Only for `uses` and `decision`: `cpu` or `cuda`; empty: any.
  std::string backend, dtype;
  std::string function, value;  ///< Only for `decision`.
  Measure measure = Measure::ops;
  Relation relation = Relation::at_least;
  std::uint64_t bound = 1;
  std::string file;      ///< File with the rule; empty for a rule from the command line.
  std::size_t line = 0;  ///< Line in `file`, from 1.
};

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
