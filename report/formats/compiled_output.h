#pragma once

#include <string>

#include "present/terminal_text.h"
#include "report/model/report.h"

namespace optrace {

// The answers of `optrace explain --compiled`: what torch.compile made of a program. `report` is
// the report of a trace in which only compilations were recorded (ProgramRequest).

/// Returns the answer for people: each compilation with its cause, its graph breaks, and its
/// kernels with what was fused into them.
std::string compiled_text(const Report& report, const TerminalStyle& style);

/// Returns schema optrace.compiled/1 (report/json/schemas/compiled.schema.json), indented, with a
/// newline at the end.
std::string compiled_json(const Report& report);

}  // namespace optrace
