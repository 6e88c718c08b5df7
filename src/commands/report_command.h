#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <CLI/App.hpp>

#include "report/output/render.h"
#include "report/output/report_text.h"
#include "src/terminal/terminal.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The user's output options, the same for every command that writes a report.
struct OutputOptions {
  ReportFormat format = ReportFormat::text;
  std::filesystem::path file;  ///< Empty: standard output.
  ReportTextOptions tree;      ///< Style and width are set for the target, when it is known.
  ColourChoice colour = ColourChoice::automatic;
};

/// Adds --format, -o, --all, --why, --times and --colour, the options of every command that writes
/// a report. `options` must outlive `app`.
void add_output_options(CLI::App& app, OutputOptions& options);

/// The stream for a report without a file.
enum class ReportStream { output, error };

/// Throws Error(usage) if the output in `options` can't be written. To be called before work that
/// takes long.
void require_output(const OutputOptions& options, ReportStream stream = ReportStream::output);

/// Throws Error(usage) if `file`, the value of --trace, is also the report's file, or if it is
/// missing although a timeline is to be kept.
void require_trace_file(const std::string& file, bool timeline, const OutputOptions& options);

/// Renders the traces of a call, or of the processes of a job, as one report, with source lines
/// from the index that best matches their torch. Writes it to the file in `options`, which appears
/// whole or not at all, or else to the stream. Throws Error(usage) as render() does.
void write_report(std::span<const Trace> traces, const OutputOptions& options,
                  ReportStream stream = ReportStream::output);

}  // namespace optrace
