#pragma once

#include <span>
#include <string>

#include <CLI/App.hpp>

#include "report/output/render.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds --format, -o, --all and --colour, which every command that reports has. `options` must
/// outlive `app`.
void add_output_options(CLI::App& app, OutputOptions& options);

/// Throws Error(usage) if the output that `options` ask for can't be made, before work is done
/// whose result it takes.
void require_output(const OutputOptions& options);

/// Throws Error(usage) if `file`, --trace's value, can't be what is asked for: a name of its own
/// beside the report's, and there at all where a timeline is to be kept.
void require_trace_file(const std::string& file, bool timeline, const OutputOptions& options);

/// Where a report goes that no file is named for.
enum class ReportStream { output, error };

/// Renders the traces of a call, or of the processes of a job, as one report, with the lines of the
/// index that fits their torch best, to where `options` say: a file, which appears whole or not at
/// all, or else the stream. Throws Error(usage) where render() does.
void write_report(std::span<const Trace> traces, const OutputOptions& options,
                  ReportStream stream = ReportStream::output);

}  // namespace optrace
