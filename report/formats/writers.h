#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

struct FormatOptions;

// The functions that write a report in a format, each in a file of its own. The table in
// formats.cpp has what a report must have for each.

/// Writes the report as a tree for people: the traced call, the frames, a summary, and suggested
/// commands.
void to_text(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes at most 60 lines about a program: what ran, the program's lines that call ops, the ops,
/// and the calls of libraries and devices. Where there is more of something, it says how much, and
/// how to see it.
void to_summary(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes the ops of a report as CSV (RFC 4180, with line feeds) with a header: `op`, `calls`,
/// `total_ns` (with the ops that they call) and `own_ns` (without them). Largest `own_ns` first.
void to_csv(const Report& report, const FormatOptions& options, OutputSink& sink);

// The formats of flame graph viewers. Each stack has a weight: the nanoseconds in its innermost
// frame without those in the frames that it calls. Device work has a weight of its own, if a device
// measured it. The weight of frames with more than 512 others above them belongs to the innermost
// of these.

/// Writes one line for each stack, `outermost;…;innermost 1234`, as inferno and flamegraph.pl read
/// it. In names, `;` becomes `,`.
void to_folded(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes a file for https://www.speedscope.app, valid under its published schema. It has a profile
/// for each thread: an evented one of the calls if the report has a timeline, else a sampled one.
void to_speedscope(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes the frames as a graph for Graphviz: one node for each function of a layer, with its file
/// and line, and an edge from each caller, with the number of calls.
void to_dot(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes the bytes of a SQLite database with the report's frames, ops, tensors and library calls.
/// docs/sqlite-format.md describes its tables. Throws Error(failed) if there is too little memory.
void to_sqlite(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes the calls on a time axis: one process of PerfettoWriter (perfetto.h).
void to_perfetto(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes a script for gdb (with Python) that sets a breakpoint on each native frame, and prints
/// each as it is hit, with its file and line.
void to_gdb(const Report& report, const FormatOptions& options, OutputSink& sink);

/// Writes a line for each call and redispatch of an op in the format that a debug build of PyTorch
/// prints with TORCH_SHOW_DISPATCH_TRACE=1 (aten/src/ATen/core/dispatch/Dispatcher.cpp):
///
///      [call] op=[aten::add.Tensor], key=[AutogradCPU]
///       [redispatch] op=[aten::add.Tensor], key=[CPU]
///
/// The spaces before a line are the calls and redispatches in progress, as there. A path that was
/// taken several times is written once. The nodes of the backward pass follow at the end. The key
/// is a question mark if the trace has no op records.
void to_dispatch_trace(const Report& report, const FormatOptions& options, OutputSink& sink);

}  // namespace optrace
