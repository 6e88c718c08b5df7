#pragma once

#include "report/compiled/generated_code.h"
#include "report/model/report.h"

namespace optrace {

/// Tells the frames of torch.compile which of the report's compilations they made: those that began
/// at the line of the program that led to the frame (`detail.compilations`), and the calls of
/// generated code which line of the program they come from (`detail.origins`).
void add_compilations(Report& report, const GeneratedCode& generated);

}  // namespace optrace
