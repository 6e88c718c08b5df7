#pragma once

#include <cstdint>
#include <set>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "src/terminal.h"
#include "tracer/calltree/memory_budget.h"
#include "tracer/launch/tracing_orders.h"

namespace optrace {

// Each add_*_command function adds one subcommand, with its options and help, to the command line.
// The subcommand runs in its CLI11 callback and throws Error, which main() prints.

/// Returns a validator for an option's value that does not repeat the choices in the help's column
/// of types.
CLI::Validator one_of(const std::set<std::string>& choices);

/// Returns a validator for whole numbers of at least `least`. CLI11's own conversion would accept
/// -1 as the largest number.
CLI::Validator whole_number(std::uint64_t least);

/// Memory limits for tracing a program.
struct MemoryOptions {
  std::uint64_t command = MemoryBudget::kDefault;  ///< Bytes in this command.
  std::uint64_t target = kTargetBytes;             ///< Bytes in each traced process.
};

/// Adds an option `name` for a number of bytes from `least` up to 1T: `2G`, `500M`. `bytes` must
/// outlive `command`.
void add_size_option(CLI::App& command, const std::string& name, std::uint64_t& bytes,
                     std::uint64_t least, const std::string& what);

/// Adds --memory SIZE and --target-memory SIZE: `2G`, `500M`. `options` must outlive `command`.
void add_memory_options(CLI::App& command, MemoryOptions& options);

/// Returns the subcommand of `app` that a misspelt word was probably meant to be; empty if none is
/// similar.
std::string subcommand_meant(CLI::App& app, const std::string& word);

/// Adds -o, --output FILE, which writes the answer to a file instead of standard output. `file`
/// must outlive `command`.
void add_output_file_option(CLI::App& command, std::string& file);

/// Adds --colour auto|always|never. `colour` must outlive `command`.
void add_colour_option(CLI::App& command, ColourChoice& colour);

/// `optrace report TRACE`: renders a saved trace.
void add_report_command(CLI::App& app);

/// `optrace check TRACE --expect RULES`: checks what ran against rules.
void add_check_command(CLI::App& app);

/// `optrace compare A B`: shows the differences between two traces or reports.
void add_compare_command(CLI::App& app);

/// `optrace attach PID`: traces a running process.
void add_attach_command(CLI::App& app);

/// `optrace locate NAME`: shows where a name is defined.
void add_locate_command(CLI::App& app);

/// `optrace layers`: shows a map of PyTorch's layers.
void add_layers_command(CLI::App& app);

/// `optrace explain OP`: shows the facts about an op in the source.
void add_explain_command(CLI::App& app);

/// `optrace source add|fetch|list|coverage`: manages the indexes of PyTorch source.
void add_source_command(CLI::App& app);

/// `optrace OP`: adds the positional argument and options of the command itself, not a subcommand.
void add_op_command(CLI::App& app);

}  // namespace optrace
