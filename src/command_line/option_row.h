#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// The options of a command as rows: a name, what the help calls the value, the help, and the
// variable that gets the value.
//
//   {"--limit", "N", "Maximum number of answers", &options.limit, Between<int>(1, 99)},

namespace optrace {

/// The words of a program that a command runs: the first word that is neither an option of the
/// command nor an option's value, or -m or -c, and all that follow it.
struct ProgramWords {
  std::vector<std::string>* words;
  /// The option without which the command runs no program, `--compiled`; empty: it always does.
  std::string only_after{};
};

/// What an option sets. A `bool` and a function without a parameter belong to a flag, which has no
/// value: the first becomes true, the second is called. All variables must outlive the row.
using OptionTarget =
    std::variant<bool*, std::function<void()>, std::string*, std::optional<std::string>*,
                 std::vector<std::string>*, std::set<std::string, std::less<>>*,
                 std::filesystem::path*, int*, unsigned*, std::optional<unsigned>*, std::uint64_t*,
                 std::optional<std::uint64_t>*, double*, std::function<void(const std::string&)>,
                 ProgramWords>;

/// Allows these values.
struct OneOf {
  std::set<std::string> values;
};

/// Allows whole numbers of at least `least`, of at most 18 digits.
struct WholeNumber {
  std::uint64_t least = 0;
};

/// Allows numbers of this range: whole ones if its limits are.
template <class Number>
struct Between {
  Number least, most;
};

/// Allows sizes from `least` bytes to 1T: `2G`, `500M`. The target gets a number of bytes.
struct ByteSize {
  std::uint64_t least = 0;
};

/// Allows a positive number of seconds.
struct Seconds {};

/// Allows a whole number with ns, us, ms or s: `50us`. The target gets nanoseconds.
struct TimeWithUnit {};

/// Allows the values for which the function returns an empty string. It returns a sentence about
/// the others, or throws.
using ProblemOf = std::function<std::string(const std::string&)>;

/// The values that an option takes. The first alternative: all.
using AllowedValues = std::variant<std::monostate, OneOf, WholeNumber, Between<int>,
                                   Between<double>, ByteSize, Seconds, TimeWithUnit, ProblemOf>;

/// How an option with several values takes them.
enum class SeveralValues : std::uint8_t {
  words,      ///< All words up to the next option.
  each_time,  ///< One word each time that the option is given.
  /// The same. The help does not mark the option, and its text says that it may be repeated.
  each_time_unmarked,
};

/// What few options have.
struct OptionExtras {
  bool required = false;
  AllowedValues allowed{};
  std::string usual{};  ///< What the help shows as the value without the option.
  /// The value of a flag, `--dry-run`, that may also have one after `=`.
  std::string implied{};
  std::string variable{};  ///< The environment variable that sets the option.
  SeveralValues several = SeveralValues::words;
  std::vector<std::string> excludes{};  ///< Options and arguments that can't be given with it.
  std::string needs{};                  ///< An option that must be given with it.
};

inline const OptionExtras kRequired{.required = true};

/// An option, a flag or a positional argument of a command. Or several of them, so that a table can
/// contain another one.
struct OptionRow {
  OptionRow(std::string its_names, std::string its_value, std::string its_help,
            OptionTarget its_target, OptionExtras its_extras = {})
      : names(std::move(its_names)),
        value(std::move(its_value)),
        help(std::move(its_help)),
        target(std::move(its_target)),
        extras(std::move(its_extras)) {}
  OptionRow(std::string its_names, std::string its_value, std::string its_help,
            OptionTarget its_target, AllowedValues allowed)
      : OptionRow(std::move(its_names), std::move(its_value), std::move(its_help),
                  std::move(its_target), OptionExtras{.allowed = std::move(allowed)}) {}
  /// Stands for these rows.
  OptionRow(std::vector<OptionRow> several) : rows(std::move(several)) {}

  std::string names;  ///< `-o,--output`. A positional argument has no dash: `TRACE`.
  std::string value;  ///< What the help calls the value: `FILE`. Empty for a flag.
  std::string help;
  OptionTarget target;
  OptionExtras extras;
  std::vector<OptionRow> rows;
  std::string title;  ///< At most one of `rows` may be given if they have a title in the help.

  bool is_positional() const;
  /// Returns true if the next word is the value.
  bool takes_value() const;
  /// Returns true if the help shows that there can be several values.
  bool shows_several_values() const;
  /// Returns the names in their order: `-o` and `--output`.
  std::vector<std::string> all_names() const;
};

using OptionRows = std::vector<OptionRow>;

/// Returns options of which at most one may be given. The help shows them under the title.
OptionRow at_most_one_of(std::string title, OptionRows rows);

/// Returns the row for a program that the command runs, which the help does not list.
OptionRow program_row(std::vector<std::string>& words, std::string only_after = {});

/// Calls `visit(row)` for each option of the rows and of the tables in them, in the order of the
/// help: those under a title come last.
void visit_options(const OptionRows& rows, const std::function<void(const OptionRow&)>& visit);

/// Returns the program of the rows, or null.
const ProgramWords* program_of(const OptionRows& rows);

}  // namespace optrace
