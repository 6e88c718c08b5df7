#pragma once

#include <exception>
#include <span>
#include <string>

#include "platform/error.h"
#include "src/command_line/command_line.h"

namespace optrace {

/// Thrown by a command that has said all that there is to say, to end with an exit status:
/// `differs`, or that of a program that it ran.
class CommandEnded : public std::exception {
 public:
  explicit CommandEnded(int status) : status_(status) {}
  explicit CommandEnded(ExitStatus status) : CommandEnded(static_cast<int>(status)) {}

  const char* what() const noexcept override { return "the command has ended"; }
  int status() const noexcept { return status_; }

 private:
  int status_;
};

// Each add_*_command function adds one subcommand, with its options and help, to the command line.
// The subcommand runs when its words are parsed, and throws Error, which main() prints, or
// CommandEnded.

/// `optrace report TRACE`: renders a saved trace.
void add_report_command(Command& app);

/// `optrace merge TRACE...`: merges traces into one.
void add_merge_command(Command& app);

/// `optrace check TRACE --expect RULES`: checks what ran against rules.
void add_check_command(Command& app);

/// `optrace findings [TRACE...]`: shows what makes a program slow, or lists the rules.
void add_findings_command(Command& app);

/// `optrace compare A B`: shows the differences between two traces or reports.
void add_compare_command(Command& app);

/// `optrace attach PID`: traces a running process.
void add_attach_command(Command& app);

/// `optrace locate NAME`: shows where a name is defined.
void add_locate_command(Command& app);

/// `optrace layers`: shows a map of PyTorch's layers.
void add_layers_command(Command& app);

/// `optrace source add|fetch|list|coverage|compare`: manages the indexes of PyTorch source.
void add_source_command(Command& app);

/// `optrace cache list|clean`: shows or removes what optrace keeps.
void add_cache_command(Command& app);

/// `optrace doctor`: checks what optrace needs.
void add_doctor_command(Command& app);

/// `optrace lsp`: serves an editor.
void add_lsp_command(Command& app);

/// `optrace mcp`: serves a coding assistant.
void add_mcp_command(Command& app);

/// `optrace completions SHELL`: prints a script that completes command lines.
void add_completions_command(Command& app);

/// Runs `optrace __complete WORDS...`, which completion scripts call, and `optrace __describe`, of
/// which the man page is made. They are not for users. `app` has all commands. Returns false for
/// other arguments.
bool run_hidden_command(const Command& app, std::span<char* const> arguments);

/// `optrace OP`: adds the positional argument and options of the command itself, not a subcommand.
void add_op_command(Command& app);

/// Returns the subcommand of `app` that a misspelt word was probably meant to be; empty if none is
/// similar.
std::string subcommand_meant(const Command& app, const std::string& word);

/// Returns a sentence about the first option that was not expected: the subcommands that have it,
/// or a similar option; empty if there is none. `app` has failed to parse arguments.
std::string option_meant(const Command& app);

}  // namespace optrace
