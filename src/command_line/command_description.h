#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "src/command_line/command_row.h"

namespace optrace {

/// An option or a positional argument of a command.
struct OptionDescription {
  std::vector<std::string>
      names;  ///< `-o`, `--output`; of a positional argument its name, `TRACE`.
  bool positional = false;
  bool takes_value = false;  ///< The next word is its value.
  bool required = false;
  bool repeated = false;             ///< Takes several values.
  std::string type;                  ///< Such as `FILE`; empty for a flag.
  std::string help;                  ///< On one line.
  std::string usual;                 ///< The value without the option; may be empty.
  std::string variable;              ///< The environment variable that sets it; may be empty.
  std::vector<std::string> choices;  ///< All values; empty if there are others.
};

/// A command with all that its help contains.
struct CommandDescription {
  std::string name;
  std::string help;
  std::string footer;  ///< Examples and notes, with line ends.
  /// Nothing: the command runs no program. Else the option without which it runs none; empty: it
  /// always does.
  std::optional<std::string> program_after;
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;

  /// Returns null if there is no such command or option.
  const CommandDescription* command(const std::string& name) const;
  const OptionDescription* option(const std::string& name) const;
  /// Returns the positional argument that takes the value number `index`; null if there is none.
  const OptionDescription* positional(std::size_t index) const;
  /// Returns the long names of the options, with their dashes.
  std::vector<std::string> long_names() const;
};

/// Returns all that `--help` shows of a command and of its subcommands.
CommandDescription describe(const CommandRow& command);

/// Returns a description as JSON, for the man page (docs/make_man_page.py).
std::string to_json(const CommandDescription& command);

}  // namespace optrace
