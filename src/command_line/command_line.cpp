#include "src/command_line/command_line.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <list>
#include <map>
#include <span>
#include <sstream>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/core.h>

// Turns rows into CLI11's objects. No other file includes its headers, which take seconds to
// compile.

namespace optrace {
namespace {

constexpr std::size_t kOptionColumns = 34;  // Of the help.

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

CLI::Option& add_target(CLI::App& app, const OptionRow& row) {
  const auto add = [&](auto& value) { return app.add_option(row.names, value, row.help); };
  const auto add_text = [&](std::string* value) {
    if (row.extras.implied.empty()) return add(*value);
    return app.add_flag(row.names + "{" + row.extras.implied + "}", *value, row.help);
  };
  // CLI11 takes an empty word for no value.
  const auto add_optional_text = [&](std::optional<std::string>* value) {
    const auto take = [value](const std::string& text) { *value = text; };
    return app.add_option_function<std::string>(row.names, take, row.help);
  };
  const auto add_function = [&](const std::function<void(const std::string&)>& take) {
    return app.add_option_function<std::string>(row.names, take, row.help);
  };
  return *std::visit(
      Overloaded{[&](bool* given) { return app.add_flag(row.names, *given, row.help); },
                 [&](const std::function<void()>& note) {
                   return app.add_flag_callback(row.names, note, row.help);
                 },
                 add_text, add_optional_text, add_function,
                 [&](const ProgramWords& program) { return add(*program.words); },
                 [&](auto* value) { return add(*value); }},
      row.target);
}

/// The help shows a validator's description in its column of types, and has what is allowed in the
/// option's text already.
CLI::Validator without_description(CLI::Validator validator) {
  return validator.description("");
}

// CLI11's own conversion would accept -1 as the largest number.
std::string problem_with(const WholeNumber& allowed, const std::string& text) {
  constexpr std::size_t kMaxDigits = 18;
  const bool good = !text.empty() && text.size() <= kMaxDigits &&
                    text.find_first_not_of("0123456789") == std::string::npos &&
                    std::stoull(text) >= allowed.least;
  return good ? std::string()
              : fmt::format("{} is not a whole number of at least {}", text, allowed.least);
}

std::string problem_with(const ByteSize& allowed, const std::string& bytes) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 40;
  std::uint64_t size = 0;
  const bool good = CLI::detail::lexical_cast(bytes, size) && size >= allowed.least && size <= kMax;
  return good ? std::string()
              : fmt::format("{} bytes is not a size from {}M to 1T", bytes, allowed.least >> 20U);
}

std::string problem_with_seconds(const std::string& text) {
  constexpr double kMax = 1e9;
  double value = 0;
  const bool good = CLI::detail::lexical_cast(text, value) && value > 0 && value <= kMax;
  return good ? std::string() : fmt::format("{} is not a number of seconds", text);
}

const std::map<std::string, std::uint64_t>& units_of_time() {
  static const std::map<std::string, std::uint64_t> units = {
      {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  return units;
}

std::string problem_with_time(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits != 0 && units_of_time().contains(text.substr(digits))) return {};
  return fmt::format("{} is not a time; give a whole number and ns, us, ms or s: 50us", text);
}

void check(CLI::Option& option, const ProblemOf& problem) {
  option.check(CLI::Validator(problem, ""));
}

void allow(CLI::Option& option, const AllowedValues& allowed) {
  std::visit(
      Overloaded{
          [](std::monostate) {},
          [&](const OneOf& one_of) {
            option.check(without_description(CLI::IsMember(one_of.values)));
          },
          [&](const WholeNumber& number) {
            check(option, [number](const std::string& text) { return problem_with(number, text); });
          },
          [&](const ByteSize& size) {
            option.transform(without_description(CLI::AsSizeValue(false)));
            check(option, [size](const std::string& bytes) { return problem_with(size, bytes); });
          },
          [&](Seconds) { check(option, problem_with_seconds); },
          [&](TimeWithUnit) {
            // A later transformation takes place earlier.
            option.transform(without_description(
                CLI::AsNumberWithUnit(units_of_time(), CLI::AsNumberWithUnit::UNIT_REQUIRED)));
            option.transform(CLI::Validator(problem_with_time, ""));
          },
          [&](const ProblemOf& problem) { check(option, problem); },
          [&](const auto& between) {
            option.check(without_description(CLI::Range(between.least, between.most)));
          }},
      allowed);
}

void add_option(CLI::App& app, const OptionRow& row) {
  CLI::Option& option = add_target(app, row);
  const OptionExtras& extras = row.extras;
  if (row.takes_value()) option.type_name(row.value);
  if (!extras.usual.empty()) option.default_str(extras.usual);
  if (!extras.variable.empty()) option.envname(extras.variable);
  if (extras.several == SeveralValues::each_time) option.allow_extra_args(false);
  if (extras.several == SeveralValues::each_time_unmarked)
    option.expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option.required(extras.required);
  allow(option, extras.allowed);
}

void add_options(CLI::App& app, const OptionRows& rows) {
  for (const OptionRow& row : rows) {
    if (!row.title.empty()) {
      CLI::App& group = *app.add_option_group(row.title);
      group.require_option(0, 1);
      add_options(group, row.rows);
    } else if (!row.rows.empty()) {
      add_options(app, row.rows);
    } else if (!std::holds_alternative<ProgramWords>(row.target)) {
      add_option(app, row);
    }
  }
}

// An option may name one that a later row adds.
void relate_options(CLI::App& app, const OptionRows& rows) {
  visit_options(rows, [&app](const OptionRow& row) {
    CLI::Option* const option = app.get_option(row.all_names().front());
    for (const std::string& other : row.extras.excludes) option->excludes(app.get_option(other));
    if (!row.extras.needs.empty()) option->needs(app.get_option(row.extras.needs));
  });
}

/// Returns the number of words before the program. `words` begin with the name of the command that
/// has these options.
std::size_t words_before_program(const OptionRows& options, std::span<const std::string> words) {
  std::vector<std::string> with_value;
  visit_options(options, [&with_value](const OptionRow& row) {
    if (row.takes_value()) std::ranges::copy(row.all_names(), std::back_inserter(with_value));
  });
  std::size_t at = 1;
  while (at < words.size()) {
    const std::string& word = words[at];
    if (word.size() < 2 || word[0] != '-' || word.starts_with("-m") || word.starts_with("-c"))
      return at;
    at += std::ranges::count(with_value, word) != 0 ? 2U : 1U;
    if (word == "--") return at;
  }
  return words.size();
}

/// A program's commands as CLI11 has them.
class CommandLine {
 public:
  explicit CommandLine(const CommandRow& program)
      : app_(std::string(program.summary), std::string(program.name)) {
    app_.set_help_flag(help_row().names, help_row().help);
    if (!program.version.empty())
      app_.set_version_flag(version_row().names, std::string(program.version), version_row().help);
    app_.get_formatter()->column_width(kOptionColumns);
    add(app_, program);
  }

  void run(std::vector<std::string> words) {
    take_program(words);
    std::ranges::reverse(words);  // As CLI11 takes them.
    try {
      app_.parse(std::move(words));
    } catch (const CLI::Success& asked) {
      std::ostringstream text;
      app_.exit(asked, text, text);
      throw HelpAsked(text.str());
    } catch (const CLI::ParseError& wrong) {
      const std::vector<CLI::App*> given = app_.get_subcommands();
      throw WrongUsage(wrong.what(), given.empty() ? std::string() : given.front()->get_name(),
                       app_.remaining(true));
    }
  }

 private:
  struct Added {
    CLI::App* app;
    CommandBody body;
  };

  void add(CLI::App& app, const CommandRow& row) {
    app.footer(std::string(row.examples));
    if (!row.commands.empty()) app.require_subcommand(row.body ? 0 : 1, 1);
    if (row.body) add_body(app, row.body());
    for (const CommandRow& command : row.commands)
      add(*app.add_subcommand(std::string(command.name), std::string(command.summary)), command);
  }

  void add_body(CLI::App& app, CommandBody body) {
    const Added& added = added_.emplace_back(Added{&app, std::move(body)});
    add_options(app, added.body.options);
    relate_options(app, added.body.options);
    app.callback([&added] {
      if (added.app->get_subcommands().empty()) added.body.run();
    });
  }

  /// Moves the words of a program from the end of `words` to where the command that was given
  /// wants them.
  void take_program(std::vector<std::string>& words) {
    const auto is_given = [&](const Added& one) {
      return one.app != &app_ && one.app->get_parent() == &app_ && !words.empty() &&
             one.app->get_name() == words[0];
    };
    const auto given = std::ranges::find_if(added_, is_given);
    const ProgramWords* const program =
        given == added_.end() ? nullptr : program_of(given->body.options);
    if (program == nullptr) return;
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(
                                           words_before_program(given->body.options, words));
    if (!program->only_after.empty()) {
      if (std::find(words.begin(), begin, program->only_after) == begin) return;
      // The program takes the place of the command's own arguments.
      for (CLI::Option* const option : given->app->get_options({}))
        if (option->get_positional()) option->required(false);
    }
    program->words->insert(program->words->end(), begin, words.end());
    words.erase(begin, words.end());
  }

  CLI::App app_;
  std::list<Added> added_;
};

}  // namespace

OptionRow help_row() {
  return {"-h,--help", "", "Print this help message and exit", std::function<void()>()};
}

OptionRow version_row() {
  return {"--version", "", "Display program version information and exit", std::function<void()>()};
}

void run_command_line(const CommandRow& program, std::vector<std::string> words) {
  CommandLine(program).run(std::move(words));
}

}  // namespace optrace
