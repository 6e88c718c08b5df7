#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// How two numbers are compared.
enum class Relation : std::uint8_t { at_most, at_least, less, more, equal, not_equal };
bool holds(std::uint64_t found, Relation relation, std::uint64_t bound);
/// `<=` and so on.
std::string_view sign_of(Relation relation);

/// What can be counted in a report. docs/check-format.md says what counts as what.
enum class Measure : std::uint8_t {
  ops,
  kernels,
  launches,
  library_calls,
  copies,
  synchronisations,
  graph_breaks,
  cpu_fallbacks,
  implicit_copies,
  failures,
};

/// One expectation: a sentence, as docs/check-format.md has them.
struct Rule {
  enum class Kind : std::uint8_t {
    calls,        ///< `pattern` is called as often as said.
    uses,         ///< Each call of op `pattern` ends in `backend`.
    never_uses,   ///< None does.
    measure,      ///< There are as many of `measure` as said.
    no_dtype,     ///< No op works on tensors of `dtype`.
    has_sources,  ///< Every frame of PyTorch's has a source.
  };
  Kind kind = Kind::measure;
  std::string text;     ///< The sentence.
  std::string name;     ///< Of the rule; the sentence where none is given.
  std::string because;  ///< Why it is expected; may be empty.
  std::string pattern;  ///< `*` stands for any characters.
  std::string device;   ///< uses: `cpu` or `cuda`; empty: any.
  std::string backend, dtype;
  Measure measure = Measure::ops;
  Relation relation = Relation::at_least;
  std::uint64_t bound = 1;
  std::string file;      ///< That has the rule; empty for one of the command line.
  std::size_t line = 0;  ///< Of `file`, from 1.
};

/// What is checked at a time. To find out what a name means takes some milliseconds.
constexpr std::size_t kMaxRules = 10'000;

/// Throws Error(usage) for what is no rule, with what was expected in its place.
Rule parse_rule(std::string_view sentence);

/// Reads a file of rules, YAML or JSON. Everything in it is hostile.
/// Throws Error(usage) for a file that can't be read or is too large, an unknown key, a rule that
/// is none, more than kMaxRules: with the line.
std::vector<Rule> read_rules(const std::filesystem::path& path);

/// The rules of what could be such a file, in memory: none of them has a file or line.
std::vector<Rule> parse_rules(const std::string& text);

/// What `--expect` takes: a sentence, or the path of a file of rules, which exists or ends as one.
std::vector<Rule> expected_rules(const std::string& expectation);

}  // namespace optrace
