#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "src/terminal/terminal.h"
#include "tracer/calltree/memory_budget.h"
#include "tracer/launch/tracing_orders.h"

namespace optrace {

/// Returns a validator for an option's value that does not repeat the choices in the help's column
/// of types. choices_of() finds them in an option that has it.
CLI::Validator one_of(const std::set<std::string>& choices);

/// Returns the values that one_of() allows an option; empty without it.
std::vector<std::string> choices_of(CLI::Option& option);

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

/// Adds --format text|json, and --json, which is short for `--format json`. `schema` is that of the
/// JSON. `format` must outlive `command`.
void add_text_or_json_options(CLI::App& command, std::string& format, const char* schema);

/// Adds -o, --output FILE, which writes the answer to a file instead of standard output. `file`
/// must outlive `command`.
void add_output_file_option(CLI::App& command, std::string& file);

/// Adds the options for output on a terminal: --colour auto|always|never, --hyperlink-format FORMAT
/// and --no-pager. `options` must outlive `command`.
void add_terminal_options(CLI::App& command, TerminalOptions& options);

}  // namespace optrace
