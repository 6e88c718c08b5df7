#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

/// Writes a script for gdb (with Python) that sets a breakpoint on each native frame, and prints
/// each as it is hit, with its file and line. `report` must have entries (MergeOptions::entries).
void to_gdb(const Report& report, OutputSink& sink);

}  // namespace optrace
