#include "report/check/check_rules.h"

#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <yaml-cpp/yaml.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/text/joined.h"
#include "report/check/rule_kinds.h"
#include "report/check/rule_sentence.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxFileLength = 1 << 20;  // Bytes.

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
                        rule_excerpt(why)),
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
                                       rule_excerpt(key), joined(known, ", ")));
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
      throw refuse(line_of(schema.Mark()), fmt::format("its schema is {}, not optrace.rules/1",
                                                       rule_excerpt(schema.Scalar())));
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

void forbid(Rule& rule) {
  rule.relation = Relation::equal;
  rule.bound = 0;
}

bool forbids(const Rule& rule) {
  return rule.relation == Relation::equal && rule.bound == 0;
}

Rule parse_rule(std::string_view text) {
  const RuleSentence sentence(text);
  for (const RuleKind& kind : rule_kinds()) {
    std::optional<Rule> rule = kind.parse(sentence);
    if (!rule) continue;
    rule->kind = &kind;
    rule->text = sentence.joined(0);
    rule->name = rule->text;
    return *std::move(rule);
  }
  throw sentence.refused("no form of rule matches it");
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
