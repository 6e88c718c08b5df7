#pragma once

#include <string>

#include "report/model/report.h"

namespace optrace {

/// Returns the bytes of a SQLite database with the report's frames, ops, tensors and library calls.
/// docs/sqlite-format.md describes its tables. `report` must have times (MergeOptions::times).
/// Throws Error(failed) if there is too little memory.
std::string to_sqlite(const Report& report);

}  // namespace optrace
