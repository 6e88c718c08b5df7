#include "pytorch/names/op_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/ascii_text.h"
#include "platform/text/joined.h"

namespace optrace {
namespace {

// No schema is longer, and no type is nested deeper.
constexpr std::size_t kMaxSchemaLength = 1 << 16;
constexpr int kMaxTypeDepth = 16;

// Types with types in parentheses. Parentheses after other types enclose an alias set.
constexpr auto kGenericTypes =
    std::to_array<std::string_view>({"Dict", "Future", "RRef", "Await", "Union"});

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text.size() > kMaxSchemaLength) fail("a shorter schema");
  }

  OpSchema parse() {
    OpSchema schema;
    schema.name = name();
    if (const std::size_t colons = schema.name.find("::"); colons != std::string::npos) {
      schema.space = schema.name.substr(0, colons);
      schema.name.erase(0, colons + 2);
    }
    if (const std::size_t dot = schema.name.find('.'); dot != std::string::npos) {
      schema.overload = schema.name.substr(dot + 1);
      schema.name.erase(dot);
    }
    if (schema.name.empty()) fail("an op's name");
    arguments(schema);
    expect("->");
    returns(schema);
    skip_blanks();
    if (at_ != text_.size()) fail("the end");
    return schema;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(ExitStatus::usage,
                fmt::format("`{}` is not the schema of an op: {} is expected at column {}",
                            text_.substr(0, 200), expected, at_ + 1),
                "Schemas look like `add.Tensor(Tensor self, Tensor other) -> Tensor`.");
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool next_is(std::string_view token) {
    skip_blanks();
    return text_.substr(at_).starts_with(token);
  }
  bool take(std::string_view token) {
    if (!next_is(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(fmt::format("`{}`", token));
  }

  // Parses letters, digits, `_`, and the separators `.` and `::`.
  std::string name() {
    skip_blanks();
    const std::size_t start = at_;
    while (at_ < text_.size()) {
      const bool separates =
          text_[at_] == '.' && at_ + 1 < text_.size() && is_word_character(text_[at_ + 1]);
      if (separates || is_word_character(text_[at_]))
        ++at_;
      else if (text_.substr(at_).starts_with("::"))
        at_ += 2;
      else
        break;
    }
    return std::string(text_.substr(start, at_ - start));
  }
  std::string word() {
    skip_blanks();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }

  std::vector<std::string> alias_names() {
    std::vector<std::string> names;
    do {
      if (take("*"))
        names.emplace_back("*");
      else if (std::string one = word(); !one.empty())
        names.push_back(std::move(one));
      else
        fail("the name of an alias set");
    } while (take("|"));
    std::ranges::sort(names);
    return names;
  }

  // Parses `(a! -> *)` after its opening parenthesis.
  AliasSet alias_set() {
    AliasSet set;
    if (take("!")) {  // `(!)`, an unnamed set.
      set.writes = true;
    } else {
      set.before = alias_names();
      set.writes = take("!");
    }
    set.after = take("->") ? alias_names() : set.before;
    expect(")");
    return set;
  }

  static void merge(std::optional<AliasSet>& into, const AliasSet& more) {
    if (!into) into.emplace();
    const auto add = [](std::vector<std::string>& names, const std::vector<std::string>& others) {
      names.insert(names.end(), others.begin(), others.end());
      std::ranges::sort(names);
      names.erase(std::unique(names.begin(), names.end()), names.end());
    };
    add(into->before, more.before);
    add(into->after, more.after);
    into->writes = into->writes || more.writes;
  }

  // Returns the type, and adds its alias sets and those of the types in it to `alias`.
  std::string type(std::optional<AliasSet>& alias, int depth = 0) {
    if (depth > kMaxTypeDepth) fail("a type with less nesting");
    std::string text;
    if (take("(")) {  // A tuple.
      text = fmt::format("({})", types(alias, depth));
    } else {
      text = name();
      if (text.empty()) fail("a type");
      const bool generic = std::ranges::find(kGenericTypes, text) != kGenericTypes.end();
      if (generic && take("(")) text += fmt::format("({})", types(alias, depth));
    }
    while (true) {
      if (next_is("(")) {
        ++at_;
        merge(alias, alias_set());
      } else if (take("[")) {
        text += fmt::format("[{}]", word());
        expect("]");
      } else if (take("?")) {
        text += '?';
      } else {
        return text;
      }
    }
  }

  // Parses types up to the closing parenthesis, and skips it.
  std::string types(std::optional<AliasSet>& alias, int depth) {
    std::string text;
    if (take(")")) return text;
    do {
      if (!text.empty()) text += ", ";
      text += type(alias, depth + 1);
    } while (take(","));
    expect(")");
    return text;
  }

  // Parses a default value, which ends at the comma or parenthesis after the argument.
  std::string default_value() {
    skip_blanks();
    const std::size_t start = at_;
    std::size_t depth = 0;
    char quote = '\0';
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quote != '\0') {
        if (c == '\\')
          ++at_;
        else if (c == quote)
          quote = '\0';
      } else if (c == '"' || c == '\'') {
        quote = c;
      } else if (c == '[' || c == '(') {
        ++depth;
      } else if (depth == 0 && (c == ',' || c == ')')) {
        break;
      } else if (c == ']' || c == ')') {
        if (depth == 0) fail("`,` or `)`");
        --depth;
      }
    }
    at_ = std::min(at_, text_.size());
    std::string_view value = text_.substr(start, at_ - start);
    while (!value.empty() && value.back() == ' ') value.remove_suffix(1);
    if (value.empty()) fail("a default");
    return std::string(value);
  }

  void arguments(OpSchema& schema) {
    expect("(");
    if (take(")")) return;
    bool keyword_only = false;
    do {
      if (take("...")) {
        schema.any_arguments = true;
        continue;
      }
      if (!keyword_only && take("*")) {
        keyword_only = true;
        continue;
      }
      SchemaArgument argument;
      argument.keyword_only = keyword_only;
      argument.type = type(argument.alias);
      argument.name = word();
      if (argument.name.empty()) fail("an argument's name");
      // `int dilation[2]`, the syntax of old schemas.
      if (take("[")) {
        argument.type += fmt::format("[{}]", word());
        expect("]");
      }
      if (take("=")) argument.default_value = default_value();
      schema.arguments.push_back(std::move(argument));
    } while (take(","));
    expect(")");
  }

  void returned(OpSchema& schema) {
    if (take("...")) {
      schema.any_returns = true;
      return;
    }
    SchemaArgument result;
    result.type = type(result.alias);
    result.name = word();
    schema.returns.push_back(std::move(result));
  }

  void returns(OpSchema& schema) {
    if (!take("(")) {
      returned(schema);
      return;
    }
    if (take(")")) return;
    do returned(schema);
    while (take(","));
    expect(")");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool share(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  return std::ranges::any_of(
      one, [&](const std::string& name) { return std::ranges::find(other, name) != other.end(); });
}

// `self`, `self and other`, `a, b and c`.
std::string enumerate(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? std::string() : names.front();
  return fmt::format("{} and {}", joined(std::span(names.begin(), names.end() - 1), ", "),
                     names.back());
}

bool is_list(const SchemaArgument& argument) {
  return argument.type.find('[') != std::string::npos;
}
bool holds_tensor(const SchemaArgument& argument) {
  return argument.type.find("Tensor") != std::string::npos;
}

std::string result_name(const OpSchema& schema, std::size_t number) {
  const SchemaArgument& result = schema.returns[number];
  const bool named =
      !result.name.empty() && std::ranges::none_of(schema.arguments, [&](const SchemaArgument& a) {
        return a.name == result.name;
      });
  if (named) return fmt::format("the result {}", result.name);
  if (schema.returns.size() == 1) return "the result";
  return fmt::format("result {}", number + 1);
}

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

void describe_writes(const OpSchema& schema, std::vector<std::string>& sentences) {
  std::vector<std::string> outputs;
  std::vector<std::string> changed;
  for (const SchemaArgument& argument : schema.arguments)
    if (argument.writes()) (argument.out() ? outputs : changed).push_back(argument.name);
  if (!changed.empty()) {
    const bool in_place = is_in_place_name(schema.name);
    sentences.push_back(fmt::format("{}hanges {}{}.", in_place ? "In-place: c" : "C",
                                    enumerate(changed), in_place ? "" : " in place"));
  }
  if (!outputs.empty())
    sentences.push_back(fmt::format("Out variant: writes {} to {}, which is resized if needed.",
                                    outputs.size() > 1 ? "its results" : "its result",
                                    enumerate(outputs)));
}

}  // namespace

OpSchema parse_schema(std::string_view text) {
  return Parser(text).parse();
}

bool is_in_place_name(std::string_view name) {
  return name.size() > 1 && name.ends_with('_') && !name.ends_with("__");
}

std::vector<std::string> describe_memory(const OpSchema& schema, bool composite) {
  std::vector<std::string> sentences;
  describe_writes(schema, sentences);
  std::vector<std::string> themselves;
  std::vector<std::string> fresh;
  for (std::size_t i = 0; i < schema.returns.size(); ++i) {
    const SchemaArgument& result = schema.returns[i];
    if (!holds_tensor(result)) continue;
    if (!result.alias) {
      fresh.push_back(result_name(schema, i));
      continue;
    }
    std::vector<std::string> sources;
    for (const SchemaArgument& argument : schema.arguments)
      if (argument.alias && share(argument.alias->before, result.alias->before))
        sources.push_back(argument.name);
    if (result.alias->writes) {
      themselves.insert(themselves.end(), sources.begin(), sources.end());
      continue;
    }
    const std::string name =
        is_list(result) ? "each tensor of " + result_name(schema, i) : result_name(schema, i);
    if (sources.empty())
      sentences.push_back(capitalised(fmt::format("{} may share any memory.", name)));
    else if (composite)
      sentences.push_back(capitalised(fmt::format(
          "{} is a view of {} if possible, otherwise a copy.", name, enumerate(sources))));
    else
      sentences.push_back(capitalised(
          fmt::format("{} is a view of {}: it shares its memory.", name, enumerate(sources))));
  }
  if (!themselves.empty())
    sentences.push_back(fmt::format("Returns {} itself.", enumerate(themselves)));
  if (!fresh.empty()) {
    const bool all = fresh.size() == schema.returns.size();
    const std::string names = all && fresh.size() > 1 ? "the results" : enumerate(fresh);
    sentences.push_back(capitalised(fmt::format("{} {} new: no memory is shared with an argument.",
                                                names, fresh.size() > 1 ? "are" : "is")));
  }
  if (schema.returns.empty() && !schema.any_returns) sentences.emplace_back("Returns nothing.");
  return sentences;
}

}  // namespace optrace
