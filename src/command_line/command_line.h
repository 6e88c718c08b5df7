#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// The command line of a program: commands with options. CLI11 parses it. Only the sources of this
// folder include CLI11's headers, which take seconds to compile.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace optrace {

struct CommandDescription;

/// Thrown by Command::parse() for words that the command line does not allow. what() is a sentence.
class WrongUsage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown by Command::parse() if the words ask for help or for the version.
class HelpAsked : public std::exception {
 public:
  explicit HelpAsked(std::string text) : text_(std::move(text)) {}

  const char* what() const noexcept override { return "help was asked for"; }
  /// Returns the lines to print.
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// Refers to an option, a flag or a positional argument of a Command, which must outlive it. Each
/// function returns the same option, so that calls can follow each other. A function that says
/// which values are good refuses the others with WrongUsage.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option required(bool is_required = true) const;

  /// Sets what the help calls the value: `FILE`. Empty: nothing.
  Option type_name(const std::string& name) const;
  /// Sets what the help shows as the value that is used without the option.
  Option default_text(const std::string& text) const;
  /// Lets the help show what the variable contains now.
  Option show_default() const;
  /// Takes the value from an environment variable if the option is not given.
  Option environment(const std::string& variable) const;

  /// Does not allow this option together with another one of the same command.
  Option excludes(const Option& other) const;
  Option excludes(const std::string& other) const;
  /// Allows this option only together with another one.
  Option needs(const Option& other) const;

  // An option for several values takes all words up to the next option. With one of the following
  // functions, it takes one word each time it is given.
  /// The help shows that there can be several values.
  Option one_value_each_time() const;
  /// The help shows one value; its text must say that the option may be repeated.
  Option repeated() const;

  /// Allows these values.
  Option one_of(const std::set<std::string>& values) const;
  /// Allows whole numbers of at least `least`, of at most 18 digits.
  Option whole_number(std::uint64_t least) const;
  /// Allows numbers of this range.
  Option between(int least, int most) const;
  Option between(double least, double most) const;
  /// Allows sizes from `least` bytes to 1T: `2G`, `500M`. The variable gets a number of bytes.
  Option size(std::uint64_t least) const;
  /// Allows a positive number of seconds.
  Option seconds() const;
  /// Allows a whole number with ns, us, ms or s: `50us`. The variable gets nanoseconds.
  Option time_with_unit() const;
  /// Allows the values for which `problem` returns an empty string. It returns a sentence about
  /// others.
  Option check(const std::function<std::string(const std::string&)>& problem) const;

  /// Returns the values of one_of(); empty without it.
  std::vector<std::string> values() const;

 private:
  CLI::Option* option_;
};

/// A command with its options and subcommands. The one without a parent is the program. The names
/// of an option are separated by commas: `-o,--output`. All variables must outlive the command.
class Command {
 public:
  /// Makes a program with the option --help.
  Command(const std::string& name, const std::string& description);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Adds a subcommand, which lives as long as this command.
  Command& add_subcommand(const std::string& name, const std::string& description);
  /// Adds a group of options, of which at most one may be given, under a title in the help.
  Command& add_exclusive_group(const std::string& title);
  void require_subcommands(std::size_t least, std::size_t most);
  /// Sets what follows the options in the help: examples and notes.
  void footer(const std::string& text);
  /// Adds the option --version, which prints a line.
  void add_version(const std::string& line);
  /// Sets the width of the help's column of options, for all commands.
  void option_width(std::size_t width);
  /// Sets what the command does once its words are parsed.
  void callback(const std::function<void()>& run);

  // An option has one value, or several if there is a vector for them.
  Option add_option(const std::string& names, std::string& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::string>& value,
                    const std::string& help);
  Option add_option(const std::string& names, std::vector<std::string>& values,
                    const std::string& help);
  Option add_option(const std::string& names, std::filesystem::path& value,
                    const std::string& help);
  Option add_option(const std::string& names, int& value, const std::string& help);
  Option add_option(const std::string& names, unsigned& value, const std::string& help);
  Option add_option(const std::string& names, std::uint64_t& value, const std::string& help);
  Option add_option(const std::string& names, std::optional<std::uint64_t>& value,
                    const std::string& help);
  Option add_option(const std::string& names, double& value, const std::string& help);
  /// `take` gets the value.
  Option add_option(const std::string& names, const std::function<void(const std::string&)>& take,
                    const std::string& help);
  /// `take` gets all values.
  Option add_option(const std::string& names,
                    const std::function<void(const std::vector<std::string>&)>& take,
                    const std::string& help);

  // A flag has no value.
  Option add_flag(const std::string& names, bool& given, const std::string& help);
  /// `note` is called if the flag is given.
  Option add_flag(const std::string& names, const std::function<void()>& note,
                  const std::string& help);
  /// This flag may have a value after `=`; without one, it stands for `usual`.
  Option add_flag(const std::string& name, std::string& value, const std::string& usual,
                  const std::string& help);

  // A positional argument is a word without an option.
  Option add_positional(const std::string& name, std::string& value, const std::string& help);
  Option add_positional(const std::string& name, std::vector<std::string>& values,
                        const std::string& help);
  Option add_positional(const std::string& name, int& value, const std::string& help);

  const std::string& name() const;
  /// Returns the line of add_version().
  std::string version() const;
  const std::vector<std::unique_ptr<Command>>& subcommands() const { return subcommands_; }
  /// Returns an option that was added: `--format`.
  Option option(const std::string& name) const;
  /// Returns the long names of the options, with their dashes, without those of groups.
  std::vector<std::string> long_names() const;
  /// Returns true if there is this option, `-o` or `--output`, and the next word is its value.
  bool takes_value(const std::string& option) const;

  /// Parses the words after the program's name, sets the variables, and calls the callback of this
  /// command or of a subcommand. Throws WrongUsage, HelpAsked, and what a callback throws.
  void parse(std::vector<std::string> words);
  /// Parses the arguments of main(), or the first of them, beginning with the program's name.
  void parse(std::span<char* const> arguments);

  // What parse() found, also if it threw.
  /// Returns how often an option was given.
  std::size_t count(const std::string& option) const;
  /// Returns the subcommand that was given; null without one.
  const Command* chosen() const;
  /// Returns the words that neither this command nor the chosen one expects.
  std::vector<std::string> unexpected_words() const;

 private:
  explicit Command(std::shared_ptr<CLI::App> app);

  friend CommandDescription describe(const Command& command);

  std::shared_ptr<CLI::App> app_;
  std::vector<std::unique_ptr<Command>> subcommands_;
  std::vector<std::unique_ptr<Command>> groups_;
};

}  // namespace optrace
