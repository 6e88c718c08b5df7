#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "report/formats/formats.h"
#include "report/lines/text_options.h"
#include "report/model/frame_selection.h"
#include "src/command_line/option_row.h"
#include "src/terminal/terminal.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The user's output options, the same for every command that writes a report.
struct OutputOptions {
  const ReportFormat* asked_format = nullptr;                 ///< The value of --format.
  const ReportFormat* usual_format = &report_format("text");  ///< Without --format.
  std::filesystem::path file{};                               ///< Empty: standard output.
  FrameSelection selection{};                                 ///< Of `optrace report`.
  ReportTextOptions tree{};  ///< Style and width are set for the target, when it is known.
  bool page_source = true;   ///< The page shows lines of source files.
  TerminalOptions terminal{};
  bool interactive = false;  ///< -i: show the tree in the terminal.

  /// Returns the format to write. Options that only the tree has ask for the tree.
  const ReportFormat& format() const {
    const bool as_tree = tree.all || tree.why || tree.times || tree.tensors;
    if (asked_format != nullptr) return *asked_format;
    return as_tree ? report_format("text") : *usual_format;
  }
};

/// --format, -o, --all, --why, --tensors, --times, --no-source, --ignore and the options for a
/// terminal, which every command that writes a report has. `options` must outlive the rows. The
/// help shows `usual_format`, or that of the options, as the format without --format.
OptionRow output_rows(OutputOptions& options);
OptionRow output_rows(OutputOptions& options, std::string usual_format);

/// -i, --interactive, which is no part of output_rows(): not every command has a terminal of its
/// own. `options` must outlive the row.
OptionRow interactive_row(OutputOptions& options);

/// The stream for a report without a file.
enum class ReportStream { output, error };

/// Throws Error(usage) if the output in `options` can't be written. To be called before work that
/// takes long.
void require_output(const OutputOptions& options, ReportStream stream = ReportStream::output);

/// Throws Error(usage) if `file`, the value of --trace, is also the report's file.
void require_other_file(const std::string& file, const OutputOptions& options);

/// Renders the traces of a call, or of the processes of a job, as one report, with source lines
/// from the index that best matches their torch. Writes it to the file in `options`, which appears
/// whole or not at all, or else to the stream. Throws Error(usage) as render() does.
void write_report(std::span<const Trace> traces, const OutputOptions& options,
                  ReportStream stream = ReportStream::output);

}  // namespace optrace
