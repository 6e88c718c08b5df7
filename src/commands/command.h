#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

namespace optrace {

// Each add_*_command function adds one subcommand, with its options and help, to the command line.
// The subcommand runs in its CLI11 callback and throws Error, which main() prints.

/// `optrace report TRACE`: renders a saved trace.
void add_report_command(CLI::App& app);

/// `optrace merge TRACE...`: merges traces into one.
void add_merge_command(CLI::App& app);

/// `optrace check TRACE --expect RULES`: checks what ran against rules.
void add_check_command(CLI::App& app);

/// `optrace findings [TRACE...]`: shows what makes a program slow, or lists the rules.
void add_findings_command(CLI::App& app);

/// `optrace compare A B`: shows the differences between two traces or reports.
void add_compare_command(CLI::App& app);

/// `optrace attach PID`: traces a running process.
void add_attach_command(CLI::App& app);

/// `optrace locate NAME`: shows where a name is defined.
void add_locate_command(CLI::App& app);

/// `optrace layers`: shows a map of PyTorch's layers.
void add_layers_command(CLI::App& app);

/// `optrace source add|fetch|list|coverage|compare`: manages the indexes of PyTorch source.
void add_source_command(CLI::App& app);

/// `optrace cache list|clean`: shows or removes what optrace keeps.
void add_cache_command(CLI::App& app);

/// `optrace doctor`: checks what optrace needs.
void add_doctor_command(CLI::App& app);

/// `optrace tags`: writes a tags file for editors.
void add_tags_command(CLI::App& app);

/// `optrace lsp`: serves an editor.
void add_lsp_command(CLI::App& app);

/// `optrace mcp`: serves a coding assistant.
void add_mcp_command(CLI::App& app);

/// `optrace completions SHELL`: prints a script that completes command lines.
void add_completions_command(CLI::App& app);

/// Runs `optrace __complete WORDS...`, which completion scripts call, and `optrace __describe`, of
/// which the man page is made. They are not for users. `app` has all commands. Returns false for
/// other arguments.
bool run_hidden_command(CLI::App& app, std::span<char* const> arguments);

/// `optrace OP`: adds the positional argument and options of the command itself, not a subcommand.
void add_op_command(CLI::App& app);

/// Returns the subcommand of `app` that a misspelt word was probably meant to be; empty if none is
/// similar.
std::string subcommand_meant(CLI::App& app, const std::string& word);

/// Returns a sentence about the first option that was not expected: the subcommands that have it,
/// or a similar option; empty if there is none. `app` has failed to parse arguments.
std::string option_meant(const CLI::App& app);

}  // namespace optrace
