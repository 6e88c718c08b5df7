#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

/// Writes the bytes of a SQLite database with the report's frames, ops, tensors and library calls.
/// docs/sqlite-format.md describes its tables. `report` must have times (MergeOptions::times).
/// Throws Error(failed) if there is too little memory.
void to_sqlite(const Report& report, OutputSink& sink);

}  // namespace optrace
