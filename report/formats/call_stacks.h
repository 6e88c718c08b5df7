#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

// The formats of flame graph viewers. Each stack has a weight: the nanoseconds in its innermost
// frame without those in the frames that it calls. `report` must have times (MergeOptions::times).
// Device work has a weight of its own, if a device measured it. The weight of frames with more than
// 512 others above them belongs to the innermost of these.

/// Writes one line for each stack, `outermost;…;innermost 1234`, as inferno and flamegraph.pl read
/// it. In names, `;` becomes `,`.
void to_folded(const Report& report, OutputSink& sink);

/// Writes a file for https://www.speedscope.app, valid under its published schema. It has a profile
/// for each thread: an evented one of the calls if the report has a timeline, else a sampled one.
void to_speedscope(const Report& report, OutputSink& sink);

}  // namespace optrace
