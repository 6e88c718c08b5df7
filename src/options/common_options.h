#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "present/format.h"
#include "src/command_line/option_row.h"
#include "src/terminal/terminal.h"
#include "tracer/collect/memory_budget.h"
#include "tracer/connection/tracing_orders.h"

// Rows of options that several commands have. The variables must outlive the rows.

namespace optrace {

/// Memory limits for tracing a program.
struct MemoryOptions {
  std::uint64_t command = MemoryBudget::kDefault;  ///< Bytes in this command.
  std::uint64_t target = kTargetBytes;             ///< Bytes in each traced process.
};

/// --memory SIZE and --target-memory SIZE: `2G`, `500M`.
OptionRow memory_rows(MemoryOptions& options);

/// The help of a --python without which a Python is searched for.
inline constexpr const char* kSearchedPython =
    "The Python that has torch. Default: $OPTRACE_PYTHON, else the\nfirst that has torch of "
    "optrace's own environment,\n$VIRTUAL_ENV, $CONDA_PREFIX, .venv and python3";

/// --python PATH.
OptionRow python_row(std::string& python, std::string help = "The Python that has torch");

/// --probes jump|int3.
OptionRow probes_row(std::string& probes);

/// --format. `usual`: what the help shows as the format without it.
OptionRow format_row(OptionTarget target, const std::vector<FormatName>& formats,
                     std::string usual);

/// Same. The format without it is that of the variable.
OptionRow format_row(std::string& format, const std::vector<FormatName>& formats);

/// --format text|json. `schema` is that of the JSON.
OptionRow text_or_json_row(std::string& format, std::string_view schema);

/// --format text|json, and --json, which is short for `--format json`.
OptionRow text_or_json_rows(std::string& format, std::string_view schema);

/// The options of a command that writes an answer.
struct AnswerOptions {
  std::string format = "text";
  std::string file;  ///< Empty: standard output.
  TerminalOptions terminal;

  OutputTarget target() const { return file.empty() ? standard_output() : OutputTarget{}; }

  /// Returns the style of the answer. `find` finds the files that links lead to.
  TerminalStyle style(FileLinks::Find find = {}) const {
    return style_for(terminal, target(), std::move(find));
  }
};

/// -o, --output FILE, which writes the answer to a file instead of standard output.
template <class File>
OptionRow output_file_row(File& file) {
  return {"-o,--output", "FILE", "Write to a file instead of standard output", &file};
}

/// --no-source, which clears `source`.
OptionRow no_source_row(bool& source);

/// The options for output on a terminal: --colour auto|always|never, --hyperlink-format FORMAT and
/// --no-pager.
OptionRow terminal_rows(TerminalOptions& options);

}  // namespace optrace
