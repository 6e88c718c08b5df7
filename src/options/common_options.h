#pragma once

#include <cstdint>
#include <string>

#include "src/command_line/command_line.h"
#include "src/terminal/terminal.h"
#include "tracer/collect/memory_budget.h"
#include "tracer/connection/tracing_orders.h"

namespace optrace {

/// Memory limits for tracing a program.
struct MemoryOptions {
  std::uint64_t command = MemoryBudget::kDefault;  ///< Bytes in this command.
  std::uint64_t target = kTargetBytes;             ///< Bytes in each traced process.
};

/// Adds --memory SIZE and --target-memory SIZE: `2G`, `500M`. `options` must outlive `command`.
void add_memory_options(Command& command, MemoryOptions& options);

/// Adds --format text|json, and --json, which is short for `--format json`. `schema` is that of the
/// JSON. `format` must outlive `command`.
void add_text_or_json_options(Command& command, std::string& format, const char* schema);

/// Adds -o, --output FILE, which writes the answer to a file instead of standard output. `file`
/// must outlive `command`.
void add_output_file_option(Command& command, std::string& file);

/// Adds the options for output on a terminal: --colour auto|always|never, --hyperlink-format FORMAT
/// and --no-pager. `options` must outlive `command`.
void add_terminal_options(Command& command, TerminalOptions& options);

}  // namespace optrace
