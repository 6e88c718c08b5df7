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

/// What the user says about output, the same for every command that reports.
struct OutputOptions {
  ReportFormat format = ReportFormat::tree;
  std::filesystem::path file;  ///< Empty: standard output.
  bool all = false;            ///< Keep wrapper templates, interpreter frames and other plumbing.
  bool why = false;            ///< Tree: a line more for each dispatcher frame, why it went there.
  bool times = false;          ///< How long each path took.
  bool own_trace = false;      ///< As TreeOptions has it.
  ColourChoice colour = ColourChoice::automatic;
};

/// What the output goes to.
struct OutputTarget {
  bool terminal = false;
  std::size_t width = 0;   ///< Columns; 0: no limit.
  bool no_colour = false;  ///< NO_COLOR is set (no-color.org), or TERM is `dumb`.
};

/// Standard output as it is, with the environment's wishes; COLUMNS goes before the terminal's own
/// answer.
OutputTarget standard_output();

/// The same of standard error.
OutputTarget standard_error();

/// How text is marked there. `colour` is --colour's value: auto, always or never.
TerminalStyle style_for(std::string_view colour, const OutputTarget& target);

/// The text of a report of `trace` in the format asked for. `index` may be null. Throws
/// Error(usage) when the trace or the index is corrupt.
std::string render(const Trace& trace, const Index* index, const OutputOptions& options,
                   const OutputTarget& target);

/// The same of the traces of several processes of one job, as one report (combine()); there must be
/// one. Throws Error(usage) also when they are not of the same torch.
std::string render(std::span<const Trace> traces, const Index* index, const OutputOptions& options,
                   const OutputTarget& target);

}  // namespace optrace
