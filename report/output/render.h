#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "indexer/store/index_store.h"
#include "report/output/terminal_text.h"
#include "tracer/trace/trace.h"

namespace optrace {

enum class ReportFormat { tree, json };
enum class ColourChoice { automatic, always, never };

/// The user's output options, the same for every command that reports.
struct OutputOptions {
  ReportFormat format = ReportFormat::tree;
  std::filesystem::path file;  ///< Empty: standard output.
  bool all = false;            ///< Keep wrapper templates, interpreter frames and other plumbing.
  bool why = false;            ///< Tree: explain each dispatcher frame's choice in a line.
  bool times = false;          ///< Show the duration of each path.
  bool own_trace = false;      ///< See ReportTextOptions::own_trace.
  ColourChoice colour = ColourChoice::automatic;
};

/// Properties of the file or terminal that output is written to.
struct OutputTarget {
  bool terminal = false;
  std::size_t width = 0;   ///< In columns; 0: no limit.
  bool no_colour = false;  ///< NO_COLOR is set (no-color.org), or TERM is `dumb`.
};

/// Describes standard output, taking environment variables into account. COLUMNS takes precedence
/// over the terminal's own width.
OutputTarget standard_output();

/// Same for standard error.
OutputTarget standard_error();

/// Returns the text style for a target. `colour` is the value of --colour: auto, always or never.
TerminalStyle style_for(std::string_view colour, const OutputTarget& target);

/// Returns the report of `trace` in the requested format. `index` may be null. Throws Error(usage)
/// if the trace or the index is corrupt.
std::string render(const Trace& trace, const Index* index, const OutputOptions& options,
                   const OutputTarget& target);

/// Same for one or more traces of the processes of one job, as one report (combine()). Also throws
/// Error(usage) if they are of different torches.
std::string render(std::span<const Trace> traces, const Index* index, const OutputOptions& options,
                   const OutputTarget& target);

}  // namespace optrace
