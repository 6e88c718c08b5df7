#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "src/command_line/command_row.h"

namespace optrace {

/// Thrown for words that a command line does not allow. what() is a sentence.
class WrongUsage : public std::runtime_error {
 public:
  WrongUsage(const std::string& sentence, std::string command, std::vector<std::string> unexpected)
      : std::runtime_error(sentence),
        command_(std::move(command)),
        unexpected_(std::move(unexpected)) {}

  /// Returns the name of the subcommand that was given; empty without one.
  const std::string& command() const noexcept { return command_; }
  /// Returns the words that neither the program nor that subcommand expects.
  const std::vector<std::string>& unexpected() const noexcept { return unexpected_; }

 private:
  std::string command_;
  std::vector<std::string> unexpected_;
};

/// Thrown if the words ask for help or for the version.
class HelpAsked : public std::exception {
 public:
  explicit HelpAsked(std::string text) : text_(std::move(text)) {}

  const char* what() const noexcept override { return "help was asked for"; }
  /// Returns the lines to print.
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// Parses the words after the program's name, sets the variables of the options, and runs the
/// subcommand that was given, or the program's own body without one. Throws WrongUsage, HelpAsked,
/// and what the command throws.
void run_command_line(const CommandRow& program, std::vector<std::string> words);

}  // namespace optrace
