#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "src/command_line/option_row.h"

// The commands of a program as rows.

namespace optrace {

/// What a command takes and does.
struct CommandBody {
  OptionRows options;
  /// Is called once the options have set their variables.
  std::function<void()> run;
};

/// Returns a command whose options set the members of an `Options`, with which it runs.
template <class Options>
CommandBody command_body(OptionRows (*rows)(Options&), void (*run)(Options&)) {
  const auto options = std::make_shared<Options>();
  return {rows(*options), [options, run] { run(*options); }};
}
template <class Options>
CommandBody command_body(OptionRows (*rows)(Options&), void (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  return {rows(*options), [options, run] { run(*options); }};
}

/// A command with its subcommands. The row of a whole program has the program's name.
struct CommandRow {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;            ///< What follows the options in the help.
  std::function<CommandBody()> body{};  ///< Null: one of the subcommands must be given.
  std::vector<CommandRow> commands{};
  std::string_view version{};  ///< The line of --version. Empty: there is no such option.
};

// The options that CLI11 adds by itself.
OptionRow help_row();
OptionRow version_row();

}  // namespace optrace
