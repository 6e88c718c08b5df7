#pragma once

#include <CLI/App.hpp>

#include "report/render.h"
#include "tracer/trace.h"

namespace optrace {

/// Adds --format, -o, --all and --colour, which every command that reports has. `options` must
/// outlive `app`.
void add_output_options(CLI::App& app, OutputOptions& options);

/// Throws Error(usage) if the output that `options` ask for can't be made, before work is done
/// whose result it takes.
void require_output(const OutputOptions& options);

/// Renders `trace`, with the lines of the index that fits its torch best, to where `options` say: a
/// file, which appears whole or not at all, or standard output.
void write_report(const Trace& trace, const OutputOptions& options);

}  // namespace optrace
