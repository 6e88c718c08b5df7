#include "report/check/check_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/text/printable_text.h"
#include "pytorch/libraries/backends.h"
#include "pytorch/names/dtypes.h"
#include "report/check/finding_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxFileLength = 1 << 20;  // Bytes.
constexpr std::size_t kMaxSentenceLength = 2000;
constexpr const char* kExamples =
    "Examples of rules: 'calls aten::mm', 'never calls *slow_conv*', 'launches <= 12', "
    "'conv2d@cuda uses cudnn', 'conv2d decision use_mkldnn == true', 'no graph break'; "
    "docs/check-format.md lists all forms.";

struct MeasureName {
  std::string_view name;
  Measure measure;
};
// The words used in a sentence. Of equal measures, the first is printed.
constexpr auto kMeasures = std::to_array<MeasureName>({
    {"ops", Measure::ops},
    {"kernels", Measure::kernels},
    {"launches", Measure::launches},
    {"library calls", Measure::library_calls},
    {"copies", Measure::copies},
    {"synchronisations", Measure::synchronisations},
    {"synchronizations", Measure::synchronisations},
    {"graph breaks", Measure::graph_breaks},
    {"recompiles", Measure::recompiles},
    {"fallbacks to CPU", Measure::cpu_fallbacks},
    {"implicit copies", Measure::implicit_copies},
    {"failures", Measure::failures},
});
// The words after `no`.
constexpr auto kWordsAfterNo = std::to_array<MeasureName>({
    {"launch", Measure::launches},
    {"library call", Measure::library_calls},
    {"copy", Measure::copies},
    {"synchronisation", Measure::synchronisations},
    {"synchronization", Measure::synchronisations},
    {"graph break", Measure::graph_breaks},
    {"recompile", Measure::recompiles},
    {"fallback to CPU", Measure::cpu_fallbacks},
    {"implicit copy", Measure::implicit_copies},
    {"implicit copy between devices", Measure::implicit_copies},
    {"failure", Measure::failures},
});

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

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 100;
  return printable_start(text, kShown);
}

Error refused(std::string_view sentence, std::string_view why, std::string remedy = kExamples) {
  return {ExitStatus::usage, fmt::format("'{}' is not a rule: {}", excerpt(sentence), why),
          std::move(remedy)};
}

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

std::string join(const std::vector<std::string>& words, std::size_t from, std::size_t to) {
  return fmt::format("{}", fmt::join(words.begin() + static_cast<std::ptrdiff_t>(from),
                                     words.begin() + static_cast<std::ptrdiff_t>(to), " "));
}

template <std::size_t size>
std::optional<Measure> measure_named(const std::array<MeasureName, size>& table,
                                     std::string_view name) {
  for (const MeasureName& known : table)
    if (known.name == name) return known.measure;
  return std::nullopt;
}

/// Removes the last two words, `<= 12`, and sets the rule's bound. Returns false if there is no
/// sign.
bool take_bound(std::string_view sentence, std::vector<std::string>& words, Rule& rule) {
  if (words.size() < 2) return false;
  const std::string& sign = words[words.size() - 2];
  const auto known = std::ranges::find(kSigns, sign, &Sign::text);
  if (known == kSigns.end()) return false;
  const std::string& number = words.back();
  if (number.find_first_of("<>") != std::string::npos) return false;  // `vector<long> >::apply`
  const char* const end = number.data() + number.size();
  const auto [rest, problem] = std::from_chars(number.data(), end, rule.bound);
  if (problem != std::errc() || rest != end)
    throw refused(sentence, fmt::format("'{}' is not a whole number", excerpt(number)));
  rule.relation = known->relation;
  words.resize(words.size() - 2);
  return true;
}

void require_pattern(std::string_view sentence, const std::string& pattern) {
  if (pattern.find_first_not_of('*') == std::string::npos)
    throw refused(sentence, "the pattern has no name");
}

/// Parses `calls PATTERN [<= N]`, with `at` words before the pattern. Function names may contain
/// spaces.
void take_calls(std::string_view sentence, std::vector<std::string> words, std::size_t at,
                Rule& rule) {
  rule.kind = Rule::Kind::calls;
  const bool bound = take_bound(sentence, words, rule);
  if (at == 2) {
    if (bound) throw refused(sentence, "a rule with 'never' takes no number");
    rule.relation = Relation::equal;
    rule.bound = 0;
  }
  if (words.size() <= at) throw refused(sentence, "the name of the called function is missing");
  rule.pattern = join(words, at, words.size());
  require_pattern(sentence, rule.pattern);
}

/// Parses `OP[@DEVICE]`.
void take_op(std::string_view sentence, const std::string& word, Rule& rule) {
  rule.pattern = word;
  if (const std::size_t at = rule.pattern.find('@'); at != std::string::npos) {
    rule.device = rule.pattern.substr(at + 1);
    rule.pattern.resize(at);
    if (rule.device != "cpu" && rule.device != "cuda") {
      throw refused(sentence, fmt::format("'{}' is not a device", excerpt(rule.device)),
                    "The devices are cpu and cuda: conv2d@cuda uses cudnn.");
    }
  }
  require_pattern(sentence, rule.pattern);
}

/// Parses `OP[@DEVICE] [never] uses BACKEND`.
void take_uses(std::string_view sentence, const std::vector<std::string>& words, Rule& rule) {
  const bool never = words.size() == 4;
  rule.kind = never ? Rule::Kind::never_uses : Rule::Kind::uses;
  take_op(sentence, words[0], rule);
  rule.backend = words.back();
  if (!is_backend(rule.backend)) {
    throw refused(sentence, fmt::format("'{}' is not a known backend", excerpt(rule.backend)),
                  fmt::format("The backends are: {}.", fmt::join(backend_names(), ", ")));
  }
}

/// Parses `OP[@DEVICE] decision FUNCTION == VALUE`.
void take_decision(std::string_view sentence, const std::vector<std::string>& words, Rule& rule) {
  constexpr std::size_t kWords = 5;
  constexpr const char* kForm =
      "The form is OP decision FUNCTION == VALUE, with == or !=: conv2d decision use_cudnn == "
      "true.";
  if (words.size() != kWords || (words[3] != "==" && words[3] != "!="))
    throw refused(sentence, "a decision is compared with one value", kForm);
  rule.kind = Rule::Kind::decision;
  take_op(sentence, words[0], rule);
  rule.function = words[2];
  require_pattern(sentence, rule.function);
  rule.relation = words[3] == "==" ? Relation::equal : Relation::not_equal;
  rule.value = words[4];
}

/// Parses `no finding [NAME]`.
void take_no_finding(std::string_view sentence, const std::vector<std::string>& words, Rule& rule) {
  if (words.size() > 3) throw refused(sentence, "the name of a finding is one word");
  rule.kind = Rule::Kind::no_finding;
  if (words.size() < 3) return;
  rule.pattern = words[2];
  require_finding_rule(rule.pattern);
}

/// Parses `no ...`.
void take_none(std::string_view sentence, const std::vector<std::string>& words, Rule& rule) {
  const std::string what = join(words, 1, words.size());
  if (what == "frame without source") {
    rule.kind = Rule::Kind::has_sources;
    return;
  }
  if (words.size() > 1 && words[1] == "finding") {
    take_no_finding(sentence, words, rule);
    return;
  }
  constexpr std::string_view kOfDtype = "kernel of dtype ";
  if (what.starts_with(kOfDtype)) {
    rule.kind = Rule::Kind::no_dtype;
    rule.dtype = what.substr(kOfDtype.size());
    if (rule.dtype.starts_with("torch.")) rule.dtype.erase(0, 6);
    if (!is_dtype(rule.dtype)) {
      std::vector<std::string_view> names;
      std::ranges::transform(kDtypes, std::back_inserter(names), &Dtype::name);
      throw refused(sentence, fmt::format("'{}' is not a dtype", excerpt(rule.dtype)),
                    fmt::format("The dtypes are: {}.", fmt::join(names, ", ")));
    }
    return;
  }
  const auto measure = measure_named(kWordsAfterNo, what);
  if (!measure) throw refused(sentence, fmt::format("there is no rule 'no {}'", excerpt(what)));
  rule.measure = *measure;
  rule.relation = Relation::equal;
  rule.bound = 0;
}

class RuleFile {
 public:
  /// `path` is empty for rules that are only in memory.
  explicit RuleFile(std::filesystem::path path = {}) : path_(std::move(path)) {}

  std::vector<Rule> read() const {
    const MappedFile file(path_, MappedFile::Trust::none);  // It may change during the read.
    const auto bytes = file.bytes();
    require_short(bytes.size());
    return parse(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

  std::vector<Rule> parse(const std::string& text) const {
    require_short(text.size());
    try {
      return rules_of(YAML::Load(text));
    } catch (const YAML::Exception& error) {
      throw refuse(line_of(error.mark), error.msg);
    }
  }

 private:
  void require_short(std::size_t size) const {
    if (size > kMaxFileLength)
      throw refuse(0, fmt::format("it is larger than {} MiB", kMaxFileLength >> 20U));
  }

  std::size_t line_of(const YAML::Mark& mark) const {
    return path_.empty() || mark.is_null() || mark.line < 0
               ? 0
               : static_cast<std::size_t>(mark.line) + 1;
  }

  Error refuse(std::size_t line, std::string_view why, std::string remedy = {}) const {
    return {ExitStatus::usage,
            fmt::format("{}: {}",
                        path_.empty() ? "the rules are invalid"
                                      : fmt::format("{}{} is not a file of rules", path_.string(),
                                                    line == 0 ? "" : fmt::format(":{}", line)),
                        excerpt(why)),
            remedy.empty()
                ? "Give YAML or JSON with a list `rules` of strings or of objects with the keys "
                  "expect, name and because; docs/check-format.md has an example."
                : std::move(remedy)};
  }

  /// Throws unless each key of the object is known and occurs once.
  void require_keys(const YAML::Node& object, const std::set<std::string>& known) const {
    std::set<std::string> seen;
    for (const auto& entry : object) {
      const std::size_t line = line_of(entry.first.Mark());
      const std::string key = text_of(entry.first, "a key");
      if (!known.contains(key))
        throw refuse(line, fmt::format("the key '{}' is unknown; the known keys are {}",
                                       excerpt(key), fmt::join(known, ", ")));
      if (!seen.insert(key).second)
        throw refuse(line, fmt::format("the key '{}' occurs twice", key));
    }
  }

  std::string text_of(const YAML::Node& node, std::string_view what) const {
    if (!node.IsScalar() || node.Scalar().size() > kMaxSentenceLength)
      throw refuse(line_of(node.Mark()), fmt::format("{} is not a string, or too long", what));
    return node.Scalar();
  }

  std::vector<Rule> rules_of(const YAML::Node& root) const {
    if (!root.IsMap()) throw refuse(0, "it is not an object");
    require_keys(root, {"schema", "rules"});
    if (const YAML::Node schema = root["schema"];
        schema && text_of(schema, "`schema`") != "optrace.rules/1")
      throw refuse(line_of(schema.Mark()),
                   fmt::format("its schema is {}, not optrace.rules/1", excerpt(schema.Scalar())));
    const YAML::Node list = root["rules"];
    if (!list || !list.IsSequence() || list.size() == 0)
      throw refuse(0, "the list `rules` is missing or empty");
    if (list.size() > kMaxRules)
      throw refuse(line_of(list.Mark()), fmt::format("it has more than {} rules", kMaxRules));
    std::vector<Rule> rules;
    for (const YAML::Node& entry : list) rules.push_back(rule_of(entry));
    return rules;
  }

  Rule rule_of(const YAML::Node& entry) const {
    const std::size_t line = line_of(entry.Mark());
    if (!entry.IsMap()) return located(text_of(entry, "a rule"), line);
    require_keys(entry, {"expect", "name", "because"});
    const YAML::Node expect = entry["expect"];
    if (!expect) throw refuse(line, "a rule lacks the key 'expect'");
    Rule rule = located(text_of(expect, "`expect`"), line_of(expect.Mark()));
    if (const YAML::Node name = entry["name"]) rule.name = text_of(name, "`name`");
    if (const YAML::Node because = entry["because"]) rule.because = text_of(because, "`because`");
    return rule;
  }

  Rule located(const std::string& sentence, std::size_t line) const {
    try {
      Rule rule = parse_rule(sentence);
      rule.file = path_.string();
      rule.line = line;
      return rule;
    } catch (const Error& error) {
      if (path_.empty()) throw;
      throw Error(error.status(), fmt::format("{}:{}: {}", path_.string(), line, error.what()),
                  error.remedy());
    }
  }

  std::filesystem::path path_;
};

bool names_rule_file(const std::string& expectation) {
  if (std::error_code ignored; std::filesystem::exists(expectation, ignored)) return true;
  for (const std::string_view ending : {".yaml", ".yml", ".json"})
    if (expectation.ends_with(ending) && expectation.find(' ') == std::string::npos) return true;
  return false;
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

std::string_view sign_of(Relation relation) {
  return std::ranges::find(kSigns, relation, &Sign::relation)->text;
}

Rule parse_rule(std::string_view sentence) {
  Rule rule;
  std::vector<std::string> words = words_of(sentence);
  if (words.empty()) throw refused(sentence, "it is empty");
  if (sentence.size() > kMaxSentenceLength) throw refused(sentence, "it is too long");
  rule.text = join(words, 0, words.size());
  rule.name = rule.text;
  const auto word = [&](std::size_t i) {
    return i < words.size() ? std::string_view(words[i]) : std::string_view();
  };
  if (word(0) == "calls") {
    take_calls(sentence, words, 1, rule);
  } else if (word(0) == "never" && word(1) == "calls") {
    take_calls(sentence, words, 2, rule);
  } else if (word(0) == "no") {
    take_none(sentence, words, rule);
  } else if ((words.size() == 3 && word(1) == "uses") ||
             (words.size() == 4 && word(1) == "never" && word(2) == "uses")) {
    take_uses(sentence, words, rule);
  } else if (words.size() > 2 && word(1) == "decision") {
    take_decision(sentence, words, rule);
  } else if (take_bound(sentence, words, rule)) {
    const std::string what = join(words, 0, words.size());
    const auto measure = measure_named(kMeasures, what);
    if (!measure) {
      std::vector<std::string_view> names;
      names.reserve(kMeasures.size());
      for (const MeasureName& known : kMeasures) names.push_back(known.name);
      throw refused(sentence, fmt::format("'{}' can't be counted", excerpt(what)),
                    fmt::format("Use one of: {}; or calls NAME.", fmt::join(names, ", ")));
    }
    rule.measure = *measure;
  } else {
    throw refused(sentence, "no form of rule matches it");
  }
  return rule;
}

std::vector<Rule> read_rules(const std::filesystem::path& path) {
  return RuleFile(path).read();
}

std::vector<Rule> parse_rules(const std::string& text) {
  return RuleFile().parse(text);
}

std::vector<Rule> expected_rules(const std::string& expectation) {
  if (names_rule_file(expectation)) return read_rules(expectation);
  std::vector<Rule> rules;
  rules.push_back(parse_rule(expectation));
  return rules;
}

}  // namespace optrace
