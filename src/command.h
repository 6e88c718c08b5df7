#pragma once

#include <cstdint>
#include <set>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tracer/calltree/memory_budget.h"
#include "tracer/launch/tracing_orders.h"

namespace optrace {

// Each adds one subcommand, with its options and help, to the command line. The subcommand runs in
// its CLI11 callback and throws Error, which main() prints.

/// Checks an option's value without repeating the choices in the help's column of types.
CLI::Validator one_of(const std::set<std::string>& choices);

/// Checks that a value is a whole number from `least` on. (CLI11 would take -1 for the largest
/// number that there is.)
CLI::Validator whole_number(std::uint64_t least);

/// How much memory a trace of a program may take.
struct MemoryOptions {
  std::uint64_t command = MemoryBudget::kDefault;  ///< Here, in bytes;
  std::uint64_t target = kTargetBytes;             ///< in each traced process.
};

/// Adds --memory SIZE and --target-memory SIZE: `2G`, `500M`. `options` must outlive `command`.
void add_memory_options(CLI::App& command, MemoryOptions& options);

/// The subcommand of `app` that a misspelt word was likely meant to be; empty if none is like it.
std::string subcommand_meant(CLI::App& app, const std::string& word);

/// Adds -o, --output FILE: where the answer goes instead of standard output. `file` must outlive
/// `command`, as below.
void add_output_file_option(CLI::App& command, std::string& file);

/// Adds --colour auto|always|never, as style_for() takes it.
void add_colour_option(CLI::App& command, std::string& colour);

/// `optrace report TRACE`: renders a saved trace.
void add_report_command(CLI::App& app);

/// `optrace check TRACE --expect RULES`: holds what ran against rules.
void add_check_command(CLI::App& app);

/// `optrace compare A B`: what differs between two traces or reports.
void add_compare_command(CLI::App& app);

/// `optrace attach PID`: traces a process that is running already.
void add_attach_command(CLI::App& app);

/// `optrace locate NAME`: where a name is defined.
void add_locate_command(CLI::App& app);

/// `optrace layers`: PyTorch's layers as a map.
void add_layers_command(CLI::App& app);

/// `optrace explain OP`: what the source says of an op.
void add_explain_command(CLI::App& app);

/// `optrace source add|list`: which PyTorch source the lines come from.
void add_source_command(CLI::App& app);

/// `optrace OP`: not a subcommand but the command's own positional argument and options.
void add_op_command(CLI::App& app);

}  // namespace optrace
